"""Which samples each UE owns, as index ranges into one arranged copy of the data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpfl.arrays import IntArray


class PartitionError(ValueError):
    """A way of sharing the data that cannot be carried out; the message has the numbers."""


@dataclass(frozen=True, eq=False)
class Shards:
    """The rows of N UEs as S segments of the arranged data, whose row `j` is source row `order[j]`.

    UE `i` owns segments `offsets[i] : offsets[i + 1]`; segment `s` is arranged rows `start[s] : start[s] + length[s]`.
    Disjoint shards have one segment per UE, in UE order and without gaps. The order of a UE's rows means nothing:
    in most partitions they are grouped by label, so take a part of a shard by drawing, never by slicing.
    """

    order: IntArray
    offsets: IntArray
    start: IntArray
    length: IntArray

    def __post_init__(self) -> None:
        segments = len(self.start)
        if len(self.offsets) < 1 or self.offsets[0] != 0 or self.offsets[-1] != segments:
            raise PartitionError(f"offsets must run from 0 to the number of segments, {segments}")
        if len(self.length) != segments or bool(np.any(np.diff(self.offsets) < 0)):
            raise PartitionError(f"{segments} starts, {len(self.length)} lengths and rising offsets do not agree")
        if segments and (self.start.min() < 0 or (self.start + self.length).max() > len(self.order)):
            raise PartitionError(f"a segment lies outside the {len(self.order)} arranged rows")

    @property
    def num_ues(self) -> int:
        """N, the number of UEs."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> IntArray:
        """Samples per UE, D in the paper, int64[N]."""
        return _sums_between(self.length, self.offsets)

    def rows(self, ues: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Arranged rows of the given UEs (default all), UE after UE, and where each UE's begin, int64[n + 1]."""
        chosen = np.arange(self.num_ues) if ues is None else np.asarray(ues, dtype=np.int64)
        segments = concatenated_ranges(self.offsets[chosen], np.diff(self.offsets)[chosen])
        rows = concatenated_ranges(self.start[segments], self.length[segments])
        return rows, running_total(self.sizes[chosen])

    def source_rows(self, ues: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """Like `rows`, but in the numbering of the data set as it was loaded."""
        rows, offsets = self.rows(ues)
        return self.order[rows], offsets

    def take(self, ues: IntArray) -> "Shards":
        """The shards of the given UEs in the given order: new UE `j` owns what UE `ues[j]` owned."""
        counts = np.diff(self.offsets)[ues]
        segments = concatenated_ranges(self.offsets[ues], counts)
        return Shards(self.order, running_total(counts), self.start[segments], self.length[segments])

    def in_ue_order(self) -> "Shards":
        """Disjoint shards with the data arranged UE by UE, one segment each, what nobody owns at the end."""
        rows, offsets = self.rows()
        unused = np.ones(len(self.order), dtype=np.bool_)
        unused[rows] = False
        if len(rows) + np.count_nonzero(unused) != len(self.order):
            raise PartitionError("shards that overlap cannot be laid out one after the other")
        order = np.concatenate([self.order[rows], self.order[unused]])
        return Shards(order, np.arange(self.num_ues + 1), offsets[:-1], self.sizes)

    def label_counts(self, targets: IntArray, num_classes: int) -> IntArray:
        """Samples of each label on each UE, int64[N, C], for `targets` in source order; `> 0`: the labels a UE has."""
        arranged = targets[self.order]
        counts = np.empty((self.num_ues, num_classes), dtype=np.int64)
        for label in range(num_classes):  # a column at a time: N x C at once would need several times the memory
            before = running_total(arranged == label)
            in_segment = before[self.start + self.length] - before[self.start]
            counts[:, label] = _sums_between(in_segment, self.offsets)
        return counts


def running_total(values: IntArray | np.ndarray) -> IntArray:
    """Sums of the first 0, 1, ... n values, int64[n + 1]."""
    total = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=total[1:])
    return total


def concatenated_ranges(start: IntArray, length: IntArray) -> IntArray:
    """`start[0] .. start[0] + length[0]`, then `start[1] ..`, and so on, as one array."""
    begins = running_total(length)
    return np.repeat(start - begins[:-1], length) + np.arange(begins[-1])


def _sums_between(values: IntArray, offsets: IntArray) -> IntArray:
    """Sum of `values[offsets[i] : offsets[i + 1]]` for every `i`; empty ranges sum to zero."""
    total = running_total(values)
    return total[offsets[1:]] - total[offsets[:-1]]
