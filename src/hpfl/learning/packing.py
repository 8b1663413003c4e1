"""Rectangles of like-sized UEs: who is padded to which width, and whole shards packed once so that no round copies."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.batches import Batch, Samples, buckets, whole_index
from hpfl.learning.blocks import BLOCK, blocks

MOST_PADDING = 0.25  # share of padding: a GPU pays more for chunks than for a little more arithmetic
SHARED_PADDING = 0.6  # where a GPU looks most of the arithmetic up
LITTLE_PADDING = 0.08  # where arithmetic is what costs

Limit = Callable[[int], int]
"""How many UEs of a bucket a chunk may hold."""


@dataclass(frozen=True)
class Layout:
    """Every UE's bucket, its row in it, and each bucket's width in samples."""

    bucket_of: IntArray  # [N]
    row_of: IntArray  # [N]
    members: tuple[IntArray, ...]
    widths: tuple[int, ...]

    @staticmethod
    def of(sizes: IntArray, max_padding: float) -> "Layout":
        """Buckets of all UEs by size with at most this share of padding."""
        members = tuple(buckets(sizes, max_padding))
        bucket_of, row_of = np.zeros_like(sizes), np.zeros_like(sizes)
        for number, own in enumerate(members):
            bucket_of[own], row_of[own] = number, np.arange(len(own))
        return Layout(bucket_of, row_of, members, tuple(max(int(sizes[own].max()), 1) for own in members))

    def chunks(self, ues: IntArray, groups: IntArray, limit: Limit) -> list[IntArray]:
        """Positions of the request in chunks of one bucket each, sorted by group and bucket row inside a chunk."""
        order = np.lexsort((self.row_of[ues], groups, self.bucket_of[ues]))
        cuts = np.flatnonzero(np.diff(self.bucket_of[ues][order])) + 1
        chunks = []
        for part in np.split(order, cuts):
            step = limit(int(self.bucket_of[ues[part[0]]])) if len(part) else 1
            chunks += [part[begin : begin + step] for begin in range(0, len(part), step)]
        return chunks


@dataclass(frozen=True)
class Store:
    """Whole shards in the rectangles of a layout."""

    layout: Layout
    packed: tuple[Batch, ...]
    members: tuple[IntArray, ...]  # by bucket: whose samples are here
    row_of: IntArray  # [N]: their rows
    block_ues: int = BLOCK

    @staticmethod
    def of(samples: Samples, layout: Layout, block_ues: int = BLOCK) -> "Store":
        """Pack every shard that is here."""
        members, row_of = layout.members, layout.row_of
        if samples.shards.held is not None:
            here = np.isin(np.arange(len(row_of)), samples.shards.held)
            members, row_of = tuple(own[here[own]] for own in members), np.zeros_like(row_of)
            for own in members:
                row_of[own] = np.arange(len(own))
        pairs = zip(members, layout.widths, strict=True)
        packed = tuple(whole_batch(samples, own, width) for own, width in pairs)
        return Store(layout, packed, members, row_of, block_ues)

    def with_grams(self, gram: Callable[[Batch], Tensor]) -> "Store":
        """The same store with the inner products of every UE's inputs beside them."""
        pairs = zip(self.packed, self.members, strict=True)
        packed = tuple(replace(batch, gram=self._grams(gram, batch, own)) for batch, own in pairs)
        return replace(self, packed=packed)

    def _grams(self, gram: Callable[[Batch], Tensor], batch: Batch, ues: IntArray) -> Tensor:
        if not self._several_blocks:
            return gram(batch)
        return torch.cat([gram(batch.select(block).aligned()) for block in blocks(ues, self.block_ues)])

    def batch(self, ues: IntArray) -> Batch:
        """The shards of UEs of one bucket; views where they lie side by side.

        Libraries round by where numbers begin. Where UEs may lie elsewhere in another process, they begin alike.
        """
        batch = self.packed[int(self.layout.bucket_of[ues[0]])].select(self.row_of[ues])
        return batch.aligned() if self._several_blocks else batch

    @property
    def _several_blocks(self) -> bool:
        return len(self.row_of) > self.block_ues


def whole_batch(samples: Samples, ues: IntArray, width: int) -> Batch:
    """The whole shards of some UEs, padded to one width."""
    if samples.table is not None:
        return samples.looked_up(samples.table, ues, width)
    counts = samples.shards.sizes[ues]
    return samples.batch(ues, whole_index(counts, width), counts)


def packed_bytes(samples: Samples, layout: Layout) -> int:
    """Bytes a store of this layout takes."""
    rows = sum(len(own) * width for own, width in zip(layout.members, layout.widths, strict=True))
    per_row = samples.inputs[:1].numel() * samples.input_itemsize + samples.targets[:1].nbytes
    return rows * (per_row + torch.finfo(samples.dtype).bits // 8)


def gram_bytes(samples: Samples, layout: Layout) -> int:
    """Bytes the inner products of all shards take."""
    cells = sum(len(own) * width**2 for own, width in zip(layout.members, layout.widths, strict=True))
    return cells * torch.finfo(samples.dtype).bits // 8
