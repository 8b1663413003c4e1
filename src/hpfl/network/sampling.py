"""Which of an edge's UEs take part in an edge round: a share of them, or a number."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """A share of the UEs that are there, rounded, or (where not 0) a number; at least one of those there."""

    fraction: float = 1.0
    count: int = 0

    def wanted(self, there: IntArray) -> IntArray:
        """How many of so many UEs take part."""
        if self.count:
            return np.minimum(there, np.int64(self.count))
        share: IntArray = np.rint(there * self.fraction).astype(np.int64)
        return np.minimum(there, np.maximum(share, 1))


def sampled(sampling: Sampling, edge_of: IntArray, lots: FloatArray, *, num_edges: int) -> BoolArray:
    """Which candidates take part: in each edge those with the smallest `lots`, uniform in [0, 1)."""
    there = np.bincount(edge_of, minlength=num_edges)
    alike = _of_alike_edges(edge_of + lots, edge_of, there, sampling.wanted(there))
    if alike is not None:
        return alike
    order = np.argsort(edge_of + lots, kind="stable")
    rank = np.arange(edge_of.size) - np.repeat(np.cumsum(there) - there, there)
    chosen = np.zeros(edge_of.size, dtype=np.bool_)
    chosen[order] = rank < np.repeat(sampling.wanted(there), there)
    return chosen


def _of_alike_edges(lots: FloatArray, edge_of: IntArray, there: IntArray, wanted: IntArray) -> BoolArray | None:
    """The same where edges have equally many candidates, one edge after the other: it takes no order of them all.

    None: they have not, or lots are alike at the border.
    """
    each, most = int(there[0]), int(wanted[0])
    if not each or not (there == each).all() or np.any(np.diff(edge_of) < 0):
        return None
    own = lots.reshape(len(there), each)
    border = np.partition(own, most - 1, axis=1)[:, most - 1]
    chosen: BoolArray = own <= border[:, None]
    return chosen.reshape(-1) if int(chosen.sum()) == most * len(there) else None
