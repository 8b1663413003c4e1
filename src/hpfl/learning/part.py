"""A part of a cohort's UEs with their samples: what a process holds that computes some blocks and never the others."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.batches import Segments, ShardRows
from hpfl.learning.packing import LITTLE_PADDING, MOST_PADDING, SHARED_PADDING, Layout
from hpfl.learning.shared import much_shared

_PADDINGS = (LITTLE_PADDING, MOST_PADDING, SHARED_PADDING)


@dataclass(frozen=True)
class PartData:
    """Samples of some UEs; `shards` knows the sizes of all, so that everything is arranged as in one piece."""

    inputs: Tensor
    targets: Tensor
    shards: ShardRows


def part_data(inputs: Tensor, targets: Tensor, shards: Segments | ShardRows, held: IntArray) -> PartData:
    """The samples of the UEs `held`, which are sorted, from those of all; a sample that several share is there once."""
    assert not isinstance(shards, ShardRows), "a part is taken of the whole"
    sizes, counts = ShardRows.of(shards).sizes, np.diff(shards.offsets)
    here = np.zeros(len(sizes), dtype=np.bool_)
    here[held] = True
    own = np.repeat(here, counts)
    start, length = np.asarray(shards.start)[own], np.asarray(shards.length)[own]
    every = np.ones(len(inputs), dtype=np.int64)
    taken = every if much_shared(sizes, len(inputs)) else _covered(start, length, len(inputs))
    before, first = np.cumsum(length) - length, np.zeros_like(sizes)
    first[held] = np.cumsum(sizes[held]) - sizes[held]
    place = torch.from_numpy(np.flatnonzero(taken))
    rows = ShardRows(first, sizes, before, _first_rows(start, taken), held, len(inputs))
    return PartData(inputs[place], targets[place], rows)


def tried_ues(sizes: IntArray, batch_size: int | None) -> IntArray:
    """The UEs that any process tries to learn what one takes: the largest of every bucket, on any device.

    Whoever has them beside its own makes the same chunks as the whole cohort, and so the same bits.
    """
    widths = [sizes] if batch_size is None else [sizes, np.minimum(sizes, batch_size)]
    layouts = [Layout.of(width, padding) for width in widths for padding in _PADDINGS]
    found = [own[int(np.argmax(sizes[own]))] for layout in layouts for own in layout.members]
    return np.unique(np.array(found, dtype=np.int64))


def _covered(start: IntArray, length: IntArray, count: int) -> IntArray:
    """1 for each of `count` rows that lies in a segment, else 0."""
    change = np.zeros(count + 1, dtype=np.int64)
    np.add.at(change, start, 1)
    np.subtract.at(change, start + length, 1)
    return np.asarray(np.cumsum(change[:-1]) > 0, dtype=np.int64)


def _first_rows(start: IntArray, taken: IntArray) -> IntArray:
    """Where rows are among those that were taken; a segment without samples may begin past the end."""
    return np.asarray(np.cumsum(taken) - 1)[np.minimum(start, len(taken) - 1)]
