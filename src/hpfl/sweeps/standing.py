"""Where many runs stand together: how many are over, which are at work in which round, and how long it will take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Standing:
    """`ended` of `total` runs are over; those that are not have `rounds_left` rounds between them."""

    total: int = 0
    ended: int = 0
    rounds_left: int = 0
    stopwatch: Callable[[], float] = time.monotonic
    at_work: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Round and number of rounds of every run that is at work."""
    _played: int = 0
    _first: dict[str, int] = field(default_factory=dict)
    _began_s: float | None = None

    def begun(self, name: str, rounds: int) -> None:
        """A run is taken up."""
        self._began_s = self.stopwatch() if self._began_s is None else self._began_s
        self.at_work[name] = (0, rounds)

    def played(self, name: str, number: int) -> None:
        """A run has played a round; the first that is told of shows where it went on."""
        before, rounds = self.at_work[name]
        if name not in self._first:
            self._first[name] = number
            before = number - 1
            self.rounds_left -= before
        self._played += max(0, number - before)
        self.at_work[name] = (number, rounds)

    def over(self, name: str, *, done: bool) -> None:
        """A run has ended; its rounds that were not told of were played too, or are not to be."""
        number, rounds = self.at_work.pop(name)
        self._played += rounds - number if done else 0
        self.ended += done

    @property
    def done_share(self) -> float:
        """How much of all is done, in runs."""
        return self.ended + sum(number / rounds for number, rounds in self.at_work.values())

    @property
    def left_s(self) -> float | None:
        """How long the rest will take at the pace so far; None before there is one."""
        if self._began_s is None or not self._played:
            return None
        return (self.stopwatch() - self._began_s) / self._played * max(0, self.rounds_left - self._played)
