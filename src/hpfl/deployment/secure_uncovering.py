"""How an edge asks for what masks a sum: at once where the list of survivors stands, else after their votes."""

from collections import OrderedDict
from collections.abc import Callable

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.hub import Child
from hpfl.deployment.secure_turns import SecureTurns
from hpfl.deployment.wire import Tag
from hpfl.secrecy import Collector

ShownLists = dict[str, list[int]]
"""With whom sums on one model may have been uncovered, by what is summed: an entry appears when it is asked."""

_KEPT = 64


class ShownSums:
    """What an edge remembers of the last models, as long as it runs."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, bytes], ShownLists] = OrderedDict()

    def on(self, tag: Tag) -> ShownLists:
        """What may have been uncovered on the model of a tag."""
        shown = self._of.setdefault((tag.run, tag.base), {})
        self._of.move_to_end((tag.run, tag.base))
        if len(self._of) > _KEPT:
            self._of.popitem(last=False)
        return shown

    def clear(self) -> None:
        """Forget all of it."""
        self._of.clear()


class Uncovering:
    """The last steps of a sum in one session."""

    def __init__(self, turns: SecureTurns, collector: Collector, threshold: int, shown: ShownLists) -> None:
        self.shown = shown
        self._turns, self._collector, self._threshold = turns, collector, threshold
        self._ask: Callable[[list[Child]], None] | None = None

    def ask_back(self, child: Child) -> None:
        """Ask one again that had gone before it has answered."""
        if self._ask is not None and self._turns.ask_back(child):
            self._ask([child])

    async def asked(self, name: str, survivors: list[int], limit_s: float) -> None:
        """Ask for what masks the sum of these, and wait until as many have answered as it takes."""
        try:
            if not self._asks_at_once(name, survivors):
                await self._ask_after_votes(name, survivors, limit_s)
            await self._turns.wait_for_enough(limit_s)
        finally:
            self._ask = None

    def _asks_at_once(self, name: str, survivors: list[int]) -> bool:
        """Ask survivors whose list stands to uncover what masks their sum; whether it stands."""
        turns = self._turns
        ready = set(self._collector.at_once(name)) & turns.present.keys()
        if len(ready) < self._threshold:
            return False
        self.shown[name] = survivors
        turns.turn(pb.REVEALED, name, ready)
        self._asks(lambda children: turns.send(children, pb.SURVIVORS, survivors, of=name))
        return True

    async def _ask_after_votes(self, name: str, survivors: list[int], limit_s: float) -> None:
        """Have survivors vouch for their list, and then uncover what masks their sum."""
        turns, collector = self._turns, self._collector
        turns.turn(pb.VOTES, name, survivors)
        self._asks(lambda children: turns.send(children, pb.SURVIVORS, survivors, of=name))
        await turns.wait(limit_s)
        collector.voters(name)
        self.shown[name] = survivors
        turns.turn(pb.REVEALED, name, turns.heard & turns.present.keys())

        def tell(children: list[Child]) -> None:
            for child in children:
                turns.send([child], pb.VOTED, collector.votes_for(name, child.number), of=name)

        self._asks(tell)

    def _asks(self, ask: Callable[[list[Child]], None]) -> None:
        """Ask all whose turn it is, and each of them again that comes back."""
        self._ask = ask
        ask([self._turns.present[number] for number in self._turns.asked])
