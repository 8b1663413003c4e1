"""How many UEs fit a memory budget at once: the same in every process, so that a resumed run rounds as it would have.

Chunks change rounding. What decides them may therefore depend on data and configuration only, never on what was
computed before: memory is set aside for good when a cohort is made, and what a UE needs is tried with the same UE.
"""

from collections.abc import Callable, Sequence

from hpfl.learning.memory import peak_bytes

Trial = Callable[[int], object]
"""Computes for the largest UE of a bucket alone."""


class Room:
    """What is left of a budget of `free` bytes, and the peak bytes of one UE by kind of computation and bucket."""

    def __init__(self, free: float) -> None:
        self.free = free
        self.needs: dict[tuple[object, int], int] = {}

    def beside(self, need: float) -> "Room":
        """What is left for a call that holds `need` bytes itself; needs that were tried are shared."""
        if not need:
            return self
        left = Room(self.free - need)
        left.needs = self.needs
        return left

    def set_aside(self, need: float, *, share: float) -> bool:
        """Take `need` bytes for good if they are at most this share of what is free; whether they were taken."""
        fits = need <= share * self.free
        self.free -= need if fits else 0
        return fits

    def fits(self, kind: object, bucket: int, trial: Trial) -> int:
        """UEs of a bucket that fit, one at least; their need is tried once."""
        if (kind, bucket) not in self.needs:
            self.needs[kind, bucket] = peak_bytes(lambda: trial(bucket))
        return max(int(self.free // max(self.needs[kind, bucket], 1)), 1)

    def suits(self, kind: object, bucket: int, trial: Trial, *, widths: Sequence[int], samples: int) -> int:
        """UEs of a bucket that together have so many samples, or as many as fit; mostly the widest bucket tells."""
        most = max(samples // widths[bucket], 1)
        widest = max(range(len(widths)), key=widths.__getitem__)
        return most if self.fits(kind, widest, trial) >= most else min(most, self.fits(kind, bucket, trial))
