"""Who computes what: stretches of whole blocks, one for each worker, with about as many samples each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import IntArray


@dataclass(frozen=True)
class UeStretch:
    """A worker's UEs, from `first` to before `end`."""

    worker: int
    first: int
    end: int

    def places(self, ues: IntArray) -> IntArray:
        """Where in a request its UEs are."""
        return np.flatnonzero((ues >= self.first) & (ues < self.end))


def stretches(sizes: IntArray, block_ues: int, workers: int) -> list[UeStretch]:
    """The stretches of workers that have any: at most as many as there are blocks."""
    starts = np.arange(0, len(sizes), block_ues)
    held = np.add.reduceat(sizes, starts).astype(np.float64) + 1.0
    middle = np.cumsum(held) - held / 2
    owner = np.minimum((middle / held.sum() * workers).astype(np.int64), workers - 1)
    if len(starts) <= workers:
        owner = np.arange(len(starts))
    return list(_joined(starts, owner, len(sizes)))


def _joined(starts: IntArray, owner: IntArray, num_ues: int) -> Iterator[UeStretch]:
    ends = np.append(starts[1:], num_ues)
    for worker in np.unique(owner).tolist():
        own = np.flatnonzero(owner == worker)
        yield UeStretch(worker, int(starts[own[0]]), int(ends[own[-1]]))
