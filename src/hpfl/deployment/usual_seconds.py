"""How long children usually take to answer one question, and from that how long one of them is worth waiting for."""

from bisect import bisect_left, insort
from dataclasses import dataclass

_FORGETS = 0.1
"""Of a peak, the share by which each quicker answer brings it down."""
_MARGIN = 4.0
"""Times its own usual seconds that a child is waited for."""
_TINY_S = 0.01
"""Where children usually take less than this, nobody is called slow for a multiple of it."""
_FIRST_MARGIN = 10.0
"""Times the least wait that a child is waited for that was never heard of: it may still be warming up."""


@dataclass(frozen=True)
class Patience:
    """How long to wait: at least `least_s`, at most `slowest` times what children usually take, `share` of it all.

    An answer that takes longer than `slowest` times the usual counts as so much of a miss as `drag` says.
    """

    least_s: float = 1.0
    slowest: float = 10.0
    share: float = 1.0
    drag: float = 0.5


class UsualSeconds:
    """A peak of the seconds of each child, which slower answers raise at once and quicker ones bring down slowly."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._peak_s: dict[int, float] = {}
        self._sorted_s: list[float] = []

    def add(self, number: int, seconds: float) -> None:
        """A child has answered after so long."""
        before = self._peak_s.get(number, seconds)
        if number in self._peak_s:
            del self._sorted_s[bisect_left(self._sorted_s, before)]
        peak_s = self._peak_s[number] = max(seconds, before + _FORGETS * (seconds - before))
        insort(self._sorted_s, peak_s)

    def typical_s(self) -> float:
        """What most children stay below: a median, the lower of two, which no single child can move far."""
        return self._sorted_s[(len(self._sorted_s) - 1) // 2]

    def is_slow(self, seconds: float) -> bool:
        """Whether an answer took many times as long as is usual where several children answer."""
        return len(self._peak_s) > 1 and seconds > self._patience.slowest * max(self.typical_s(), _TINY_S)

    def wait_s(self, number: int, *, has_missed: bool = False) -> float | None:
        """How long to wait for a child; None while nobody has ever answered."""
        if not self._peak_s:
            return None
        rule = self._patience
        longest_s = rule.slowest * self.typical_s()
        if number in self._peak_s:
            wait_s = max(rule.least_s, min(_MARGIN * self._peak_s[number], longest_s))
        else:
            wait_s = max(rule.least_s * (1.0 if has_missed else _FIRST_MARGIN), longest_s)
        return rule.share * wait_s
