"""Sums of a block that wait for its last chunk: one product a group over shared rows, not one a chunk and group.

What a group's UEs add to a dense layer is `sum over samples of error^T row`. While chunks are computed, errors and the
numbers of their rows are put aside; at the end of the block each group has all of its samples in one product.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.shared import SharedRows

_PIECE = 1024  # samples a GPU adds up in one product of many
_GATHERED_BYTES = 256_000_000  # of rows that are formed at once on a GPU

Runs = tuple[tuple[int, int, int], ...]
"""(group, first UE, end) of each stretch of UEs of one group."""


@dataclass(frozen=True)
class DeferredPart:
    """Errors [u, n, out] of a chunk at rows that UEs share."""

    rows: SharedRows
    errors: Tensor
    runs: Runs

    def places(self, before: int) -> list[tuple[int, IntArray]]:
        """Where each group's samples are, `before` samples of other parts: without what only fills rectangles up."""
        width = self.errors.shape[1]
        real = np.arange(width) < self.rows.counts[:, None]
        ue, sample = np.nonzero(real)
        place = before + ue * width + sample
        ends = np.concatenate([[0], np.cumsum(self.rows.counts)])
        return [(group, place[ends[first] : ends[end]]) for group, first, end in self.runs]


@dataclass
class Deferred:
    """Parts of a block, by where in the flat vector the weights of their layer lie."""

    parts: dict[tuple[int, int], list[DeferredPart]] = field(default_factory=dict)

    def add(self, where: slice, part: DeferredPart) -> None:
        """Put a part aside."""
        self.parts.setdefault((where.start, where.stop), []).append(part)

    def finish(self, total: Tensor) -> None:
        """Add every group's sum of outer products to its row of `total` [groups, P]."""
        for (start, stop), parts in self.parts.items():
            rows = parts[0].rows.table.rows
            index = torch.cat([part.rows.index.reshape(-1) for part in parts])
            errors = torch.cat([part.errors.flatten(0, 1) for part in parts])
            into = total[:, start:stop].view(len(total), errors.shape[1], rows.shape[1])
            add = _add_in_pieces if total.is_cuda else _add_by_group
            add(rows, index, errors, into, _by_group(parts))
        self.parts.clear()


def _by_group(parts: list[DeferredPart]) -> dict[int, IntArray]:
    """Where the samples of each group are among those of all parts."""
    found: dict[int, list[IntArray]] = {}
    before = 0
    for part in parts:
        for group, places in part.places(before):
            found.setdefault(group, []).append(places)
        before += part.rows.index.numel()
    return {group: np.concatenate(found[group]) for group in sorted(found)}


def _add_by_group(rows: Tensor, index: Tensor, errors: Tensor, into: Tensor, places: dict[int, IntArray]) -> None:
    """One product a group."""
    for group, own in places.items():
        at = torch.from_numpy(own)
        left = rows.index_select(0, index.index_select(0, at))
        into[group].addmm_(errors.index_select(0, at).T, left)


def _add_in_pieces(rows: Tensor, index: Tensor, errors: Tensor, into: Tensor, places: dict[int, IntArray]) -> None:
    """The same in equal pieces, many in one batched product: what is too short is filled up with errors of zero."""
    index, errors = torch.cat([index, index[:1]]), torch.cat([errors, torch.zeros_like(errors[:1])])
    most = max(len(own) for own in places.values())
    pieces = -(-most // _PIECE)
    length = -(-most // (8 * pieces)) * 8
    filled = np.full((len(places), pieces * length), len(errors) - 1)
    for row, own in zip(filled, places.values(), strict=True):
        row[: len(own)] = own
    at_once = max(_GATHERED_BYTES // (filled.shape[1] * rows.shape[1] * rows.element_size()), 1)
    chosen, groups = torch.from_numpy(filled).to(rows.device), torch.tensor(list(places), device=rows.device)
    for some, at in zip(torch.split(chosen, at_once), torch.split(groups, at_once), strict=True):
        right = errors.index_select(0, some.view(-1)).view(-1, length, errors.shape[1])
        left = rows.index_select(0, index.index_select(0, some.view(-1))).view(-1, length, rows.shape[1])
        into[at] += torch.bmm(right.mT, left).view(len(some), pieces, *into.shape[1:]).sum(1)
