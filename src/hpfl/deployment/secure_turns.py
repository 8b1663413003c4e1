"""Whose turn it is in a secure sum: who is in, which step is due, who has taken it, and who is waited for."""

import asyncio
from collections.abc import Collection, Mapping

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.attendance import Question
from hpfl.deployment.hub import Child
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.roll_call import RollCall
from hpfl.deployment.secure_wire import step_body
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import Tag, encode
from hpfl.secrecy import SecrecyError

BACK_S = 5.0
"""How long those are waited for who have gone, where the others are too few to uncover what a sum is masked with."""
PHASE_S = 60.0
"""No step of a secure sum is waited for longer, whatever else the edge waits for."""


_QUESTIONS: dict[int, Question] = {
    pb.KEYS: "keys",
    pb.SHARES: "shares",
    pb.MASKED: "masked words",
    pb.VOTES: "vote",
    pb.REVEALED: "revealed shares",
}


class SecureTurns:
    """One session's: `present` are the streams of those that have not fallen out, `broken` is why it cannot go on."""

    def __init__(self, side: ParentSide, tag: Tag, attempt: bytes, *, least: int) -> None:
        self.present: dict[int, Child] = {}
        self.heard: set[int] = set()
        self.asked: set[int] = set()
        self._gone: set[int] = set()
        self.broken: SecrecyError | None = None
        self.changed = asyncio.Event()
        self.due: tuple[int, str] = (pb.KEYS, "")
        self._side, self._tag, self._attempt, self._least = side, tag, attempt, least
        self._roll = self._called(PHASE_S)

    def turn(self, kind: int, of: str, asked: Collection[int]) -> None:
        """Another step is due, of some of those who are present."""
        self.due, self.asked, self.heard = (kind, of), set(asked) & self.present.keys(), set()
        self._gone.clear()
        self._roll = self._called(PHASE_S)

    def ask(self, child: Child) -> None:
        """One more is asked for what is due; whoever has come again answers again."""
        self.present[child.number] = child
        self.heard.discard(child.number)
        self.asked.add(child.number)
        self._roll.ask(child.number)

    def ask_back(self, child: Child) -> bool:
        """One that was asked for what is due is here again, and has not answered; whether that is so."""
        if child.number not in self._gone:
            return False
        self._gone.discard(child.number)
        self.ask(child)
        self.changed.set()
        return True

    def ask_alone(self, of: Collection[int], limit_s: float) -> None:
        """Of those who were asked, some alone are waited for, from now on."""
        self.asked &= set(of)
        self._roll = self._called(limit_s)

    def answered(self, number: int) -> None:
        """One has taken the step that is due."""
        self.heard.add(number)
        self._roll.heard(number)
        self.changed.set()

    def left(self, number: int) -> None:
        """One has gone, perhaps in the middle of a step."""
        if number in self.owing:
            self._roll.left(number)
            self._gone.add(number)
        self.lose(number)

    def lose(self, number: int) -> None:
        """One has fallen out."""
        self.present.pop(number, None)
        self.changed.set()

    def keep(self, numbers: Collection[int]) -> None:
        """Nobody but these goes on."""
        self.present = {number: child for number, child in self.present.items() if number in numbers}

    @property
    def owing(self) -> set[int]:
        """Those who have not answered yet, and may."""
        return (self.asked & self.present.keys()) - self.heard

    async def wait(self, limit_s: float) -> None:
        """Wait for those who were asked, as long as they are worth it; the others have fallen out.

        Nobody is given up while fewer have answered than a sum takes, and those who were asked may still be as many.
        """

        def done() -> bool:
            owing, heard = self.owing, len(self.heard)
            if self.broken is not None or not owing:
                return True
            scarce = heard < self._least <= heard + len(owing)
            return not scarce and self._roll.is_over(owing, len(self.asked))

        await until(done, self.changed, limit_s)
        if self.broken is not None:
            raise self.broken
        owing = self.owing
        self._roll.close(owing, len(self.asked))
        for number in owing:
            self.lose(number)

    async def wait_for_enough(self, limit_s: float) -> None:
        """Wait until as many have answered as a sum takes; the others may still answer.

        Where those who are here are too few for that, those who have gone are waited for, for a while.
        """
        least = self._least

        def done() -> bool:
            return self.broken is not None or len(self.heard) >= least

        def hopeless() -> bool:
            return len(self.heard) + len(self.owing) < least

        if not await until(lambda: done() or hopeless(), self.changed, limit_s) or not done():
            can_return = len(self.heard) + len(self.owing) + len(self._gone) >= least
            await until(lambda: done() or not can_return, self.changed, BACK_S)
        if self.broken is not None:
            raise self.broken
        if not done():
            self._roll.close(self.owing, len(self.asked))

    def send(
        self,
        children: Collection[Child],
        kind: int,
        entries: Mapping[int, bytes] | Collection[int] = (),
        *,
        of: str = "",
        agreed: bytes = b"",
    ) -> None:
        """Begin to send a step of the edge's."""
        frame = encode(self._tag, **step_body(kind, self._attempt, entries, of=of, agreed=agreed))
        self._side.hub.send_all([frame], list(children), at_once=self._side.at_once)

    def _called(self, limit_s: float) -> RollCall:
        roll = RollCall(self._side.attendance, _QUESTIONS[self.due[0]], limit_s=limit_s)
        for number in self.asked:
            roll.ask(number)
        return roll
