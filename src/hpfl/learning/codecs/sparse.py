"""How many numbers a codec sends that leaves most of them out."""

from dataclasses import dataclass
from math import ceil
from typing import Protocol

from hpfl.learning.faults import LearningError


class SparseChoice(Protocol):
    """What is written of it: a share, or k."""

    @property
    def share(self) -> float: ...
    @property
    def k(self) -> int | None: ...


@dataclass(frozen=True)
class Sparse:
    """`k` numbers of an update or, where it is None, a `share` of them, at least one."""

    share: float = 0.01
    k: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise LearningError(f"the share of numbers sent is {self.share}; wanted more than 0 and at most 1")
        if self.k is not None and self.k < 1:
            raise LearningError(f"k is {self.k}; wanted at least one number to be sent")

    def count(self, n: int, name: str) -> int:
        """How many of `n` are sent by the codec of that name."""
        if self.k is None:
            return max(ceil(self.share * n), 1)
        if self.k > n:
            raise LearningError(f"the codec {name!r} has k = {self.k}; an update that is given to it has {n} numbers")
        return self.k


DEFAULT = Sparse()
"""One number of a hundred."""
