"""One call for updates: who computes for which group, from where, and the sums that grow chunk by chunk."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.answers import CohortUpdates
from hpfl.learning.blocks import BLOCK, blocks
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.deferred import Deferred
from hpfl.learning.draws import Draws
from hpfl.learning.engine import Engine, Losses, Sums, is_in_place, shares_of
from hpfl.learning.faults import NonFiniteUpdateError
from hpfl.learning.kept import Kept
from hpfl.learning.local_batches import Drawn, LocalBatches
from hpfl.learning.packing import Limit
from hpfl.learning.rooms import Rooms
from hpfl.learning.sending import Sending
from hpfl.learning.side_by_side import in_turn
from hpfl.rng import Streams

_ROWS = 16


@dataclass(frozen=True)
class Request:
    """Who computes, for which groups, with which weights and draws."""

    params: Tensor  # [P], or [groups, P]
    ues: IntArray  # [n]
    groups: IntArray  # [n]
    shares: FloatArray  # [n]: each UE's weight in its group, adding up to 1
    num_groups: int
    streams: Streams
    key: int
    coding: Coding = UNCODED

    @staticmethod
    def of(params: Tensor, ues: IntArray, groups: IntArray, **options: Any) -> "Request":
        """A request of whole numbers, whose weights are checked."""
        ues, groups = np.asarray(ues, dtype=np.int64), np.asarray(groups, dtype=np.int64)
        shares = shares_of(groups, options["num_groups"], options.pop("weights"))
        return Request(params, ues, groups, shares, **options)

    def starts(self, at: IntArray) -> Tensor:
        """Where some UEs start: [P], or [u, P] with a row for each."""
        if self.params.ndim == 1:
            return self.params
        return self.params[torch.from_numpy(self.groups[at]).to(self.params.device)]

    def clip(self, at: IntArray) -> FloatArray | None:
        """The norms that updates of some UEs are scaled down to."""
        return None if self.coding.clip is None else np.asarray(self.coding.clip[self.groups[at]], dtype=np.float64)

    def draws(self, at: IntArray) -> Draws:
        """The draws of some UEs."""
        return Draws(self.streams, self.key, self.ues[at], self.params.device)


@dataclass(frozen=True)
class Answer:
    """What grows while chunks are computed."""

    total: Tensor  # [groups, P]
    losses: Tensor  # [2, n]
    per_ue: Tensor | None  # [n, P], where asked for
    kept: Kept  # [n, ...]
    variance: Tensor | None = None  # [n, C], where asked for
    squared: Tensor | None = None  # [n], where updates are clipped

    @staticmethod
    def empty(request: Request, kept: Kept, rooms: Rooms, *, keep_per_ue: bool, sums: bool = True) -> "Answer":
        """Nothing yet; without `sums`, no room for those of groups."""
        params, count = request.params, len(request.ues)
        total = params.new_zeros(request.num_groups if sums else 0, params.shape[-1])
        per_ue = params.new_zeros(count, params.shape[-1]) if keep_per_ue else None
        chains, variance = len(request.coding.foretold), None
        if chains:
            variance = torch.zeros(count, chains, dtype=torch.float64, device=params.device)
        clipped = request.coding.clip is not None
        squared = torch.zeros(count, dtype=torch.float64, device=params.device) if clipped else None
        coded = not request.coding.chain.is_identity  # otherwise codecs keep what they have kept
        now = kept.unwritten(rooms) if coded else replace(replace(kept, codec=None).unwritten(rooms), codec=kept.codec)
        return Answer(total, params.new_zeros(2, count), per_ue, now, variance, squared)


class BlockSums(NamedTuple):
    """What the UEs of one block add to the groups from `first` on."""

    first: int
    rows: Tensor  # [groups, P]


@dataclass(frozen=True)
class CohortRound:
    """The computation of one call, over blocks of so many UEs."""

    engine: Engine
    batches: LocalBatches
    sending: Sending
    request: Request
    kept: Kept  # [n, ...], what the UEs keep before
    answer: Answer
    block_ues: int = BLOCK

    def run(self, limit: Limit) -> None:
        """Compute all chunks; each block's sums are added to the whole when they are complete."""
        for first, rows in self.block_sums(limit):
            self.answer.total[first : first + len(rows)] += rows

    def block_sums(self, limit: Limit) -> Iterator[BlockSums]:
        """The sums of each block, in order; whoever computes a block, they have these bits."""
        request = self.request
        drawn = self.batches.drawn(request.ues, request.streams, request.key)
        for block in blocks(request.ues, self.block_ues):
            groups = request.groups[block]
            first, last = (int(groups.min()), int(groups.max()) + 1) if len(groups) else (0, 0)
            into = request.params.new_zeros(last - first, request.params.shape[-1])
            chunks = [block[at] for at in self.batches.layout.chunks(request.ues[block], groups, limit)]
            if self.engine.side_by_side and len(chunks) > 1 and not request.params.is_cuda:  # a GPU records in turn
                self._add_side_by_side(chunks, drawn, into, first)
            else:
                deferred = Deferred()
                for at in chunks:
                    self._add(at, drawn, into, first, deferred)
                deferred.finish(into)
            yield BlockSums(first, into)

    def _add_side_by_side(self, chunks: list[IntArray], drawn: Drawn, into: Tensor, first: int) -> None:
        """Compute chunks in several threads, and add them up one after the other."""
        adds_up = is_in_place(self.engine) and self.answer.per_ue is None
        calls = [partial(self._sums if adds_up else self._directions, at, drawn) for at in chunks]
        work = [float(self.batches.data.samples.shards.sizes[self.request.ues[at]].sum()) for at in chunks]
        numbers = into.shape[-1] + sum(self.sending.numbers_kept)
        each = in_turn(calls, work, len(chunks[0]) * numbers * into.element_size())
        for at, (directions, part, now) in zip(chunks, each, strict=True):
            groups = self.request.groups[at] - first
            if adds_up:
                into[groups[0] : groups[0] + len(directions)] += directions
            else:
                Sums.of(into, groups, self.request.shares[at]).add(directions)
            self._write(at, part, now, None if adds_up else directions)

    def _sums(self, at: IntArray, drawn: Drawn) -> tuple[Tensor, Losses, Kept]:
        """What arrives of the UEs of a chunk together, from the first of their groups on."""
        request, groups = self.request, self.request.groups[at] - self.request.groups[at[0]]
        own = request.params.new_zeros(int(groups[-1]) + 1, request.params.shape[-1])
        sums = Sums.of(own, groups, request.shares[at], clip=request.clip(at))
        return own, *self._computed(at, drawn, sums)

    def _directions(self, at: IntArray, drawn: Drawn) -> tuple[Tensor, Losses, Kept]:
        """What arrives of each UE of a chunk."""
        request, clip = self.request, self.request.clip(at)
        own = request.params.new_empty(len(at), request.params.shape[-1])
        sums = replace(Sums.rows(own), clip=None if clip is None else torch.from_numpy(clip).to(own.device))
        return own, *self._computed(at, drawn, sums)

    def _add(self, at: IntArray, drawn: Drawn, into: Tensor, first: int, deferred: Deferred) -> None:
        """Compute a chunk of the request, for the rows of groups from `first` on."""
        request, answer = self.request, self.answer
        own = None if answer.per_ue is None else torch.empty_like(answer.per_ue[: len(at)])
        where = request.groups[at] - first
        sums = Sums.of(into, where, request.shares[at], own, clip=request.clip(at), deferred=deferred)
        self._write(at, *self._computed(at, drawn, sums), own)

    def _computed(self, at: IntArray, drawn: Drawn, sums: Sums) -> tuple[Losses, Kept]:
        request = self.request
        gather = self.batches.stacked if self.engine.side_by_side else self.batches.of_chunk
        steps = gather(request.ues, at, drawn)
        coding, draws, kept, room = request.coding, request.draws(at), self.kept, None
        if is_in_place(self.engine):
            rows, room = kept.seen(at), self.answer.kept.room(at, request.params.dtype)
        else:
            rows = kept.rows(at)
        return self.sending.compute(self.engine, request.starts(at), steps, sums, rows, draws, coding, room)

    def _write(self, at: IntArray, part: Losses, now: Kept, own: Tensor | None) -> None:
        """Put what is told of each UE of a chunk in its place."""
        answer = self.answer
        place = torch.from_numpy(at).to(answer.losses.device)
        answer.losses[:, place] = torch.stack([part.loss, part.meta_loss])
        answer.kept.write(at, replace(now, codec=None) if self.request.coding.chain.is_identity else now)
        if answer.per_ue is not None and own is not None:
            answer.per_ue[place] = own
        if answer.variance is not None and part.variance is not None:
            answer.variance[place] = part.variance
        if answer.squared is not None and part.squared is not None:
            answer.squared[place] = part.squared


def reported(request: Request, answer: Answer) -> CohortUpdates:
    """Group figures on the host; this is where the device is waited for."""
    total = answer.total
    importance = _norms(total).square().cpu().numpy()
    wrong = np.flatnonzero(~np.isfinite(importance))
    if len(wrong):
        raise NonFiniteUpdateError(
            f"the update of group {wrong[0]} is not finite; lower learning.inner_lr or learning.outer_lr"
        )
    weighted, groups = answer.losses.double().cpu().numpy() * request.shares, request.groups
    empty = np.bincount(groups, minlength=len(total)) == 0
    means = [np.where(empty, np.nan, np.bincount(groups, weights=w, minlength=len(total))) for w in weighted]
    shares = None if answer.per_ue is None else request.shares
    noise = None if answer.variance is None else _noise(request, answer.variance)
    norms = None if answer.squared is None else np.sqrt(answer.squared.cpu().numpy())
    return CohortUpdates(total, importance, means[0], means[1], answer.per_ue, answer.kept, shares, noise, norms)


def _norms(total: Tensor) -> Tensor:
    """Norms of rows in float64: on a CPU some at a time, for which torch keeps numbers of float64 in the caches."""
    parts = (total,) if total.is_cuda else torch.split(total, _ROWS)
    return torch.cat([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])


def _noise(request: Request, variance: Tensor) -> FloatArray:
    """`sum_i share_i^2 var_i` in each group, [groups, C]: coders draw independently."""
    each = np.square(request.shares)[:, None] * variance.cpu().numpy()
    noise = np.zeros((request.num_groups, each.shape[1]))
    np.add.at(noise, request.groups, each)
    return noise
