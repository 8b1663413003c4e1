"""With whom a UE's sketch and update on a model were summed: a second sum, with others, would show what is between."""

from collections import OrderedDict

from hpfl.deployment.wire import Tag
from hpfl.secrecy import SecrecyError

_REMEMBERED = 1024


class SumHistory:
    """What one UE has uncovered since it was started.

    It may uncover a sum again with the same UEs, whose sum it is again: an edge or a cloud that was killed goes on. Two
    thresholds of UEs that do so with different lists would have more than a third of the cell in common.
    """

    def __init__(self) -> None:
        self._with: OrderedDict[tuple[str, int, bytes, int, str], frozenset[int]] = OrderedDict()
        self._oldest: dict[str, int] = {}

    def check(self, tag: Tag, of: str, survivors: frozenset[int]) -> None:
        """Refuse a sum with other UEs than were uncovered before, or of a model so old that nobody remembers."""
        if self._with.get(_key(tag, of), survivors) != survivors:
            raise SecrecyError(f"the {of} was summed before with others, and two sums would show what is between them")
        if tag.base_round < self._oldest.get(tag.run, 0):
            raise SecrecyError(f"the model of round {tag.base_round} is too old to remember with whom it was summed")

    def note(self, tag: Tag, of: str, survivors: frozenset[int]) -> None:
        """What masks a sum is about to be uncovered."""
        self._with[_key(tag, of)] = survivors
        if len(self._with) > _REMEMBERED:
            (run, base_round, *_), _ = self._with.popitem(last=False)
            self._oldest[run] = max(base_round + 1, self._oldest.get(run, 0))


def _key(tag: Tag, of: str) -> tuple[str, int, bytes, int, str]:
    return tag.run, tag.base_round, tag.base, tag.edge_round, of
