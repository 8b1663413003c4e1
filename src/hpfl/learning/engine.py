"""What every engine takes and gives: a chunk of UEs, the parameters they start from, and how groups sum them up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeGuard

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.batches import Batch
from hpfl.learning.deferred import Deferred
from hpfl.learning.metrics import Tested
from hpfl.learning.objective import LocalTraining


@dataclass(frozen=True)
class Sums:
    """Where a chunk's directions are added up: `total[group] += share * direction`, and rows of UEs where asked for.

    An engine that `clips` scales each direction down to its norm in `clip` [u] first (None: none is).
    """

    total: Tensor  # [groups present, P], added to in place
    matrix: Tensor  # [groups present, u]: each UE's share in its group, zero elsewhere
    runs: tuple[tuple[int, int, int], ...] = ()  # (row of total, first UE, end) of each stretch of one group
    per_ue: Tensor | None = None  # [u, P], written
    clip: Tensor | None = None  # [u] in float64
    deferred: Deferred | None = None  # where products over shared rows wait for the end of a block
    first: int = 0  # the row of the block's sums that is row 0 here

    @staticmethod
    def of(
        total: Tensor,
        groups: IntArray,
        shares: FloatArray,
        per_ue: Tensor | None = None,
        *,
        clip: FloatArray | None = None,
        deferred: Deferred | None = None,
    ) -> "Sums":
        """The sums of UEs in nondecreasing groups."""
        first, last = int(groups[0]), int(groups[-1]) + 1
        dense = np.zeros((last - first, len(groups)))
        dense[groups - first, np.arange(len(groups))] = shares
        cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        runs = tuple((int(groups[a]) - first, a, b) for a, b in pairwise(cuts))
        norms = None if clip is None else torch.from_numpy(clip).to(total.device)
        matrix = torch.from_numpy(dense).to(total)
        return Sums(total[first:last], matrix, runs, per_ue, norms, deferred, first)

    @staticmethod
    def rows(per_ue: Tensor) -> "Sums":
        """No sums at all: directions are only written to a row for each UE."""
        return Sums(per_ue[:0], per_ue.new_empty(0, len(per_ue)), (), per_ue)

    def add(self, directions: Tensor, where: slice = slice(None), scale: float = 1.0) -> None:
        """Add directions [u, p] in some places of the vector: one product over the groups present, so bits repeat."""
        self.total[:, where].addmm_(self.matrix, directions.to(self.matrix.dtype), alpha=scale)
        if self.per_ue is not None:
            self.per_ue[:, where] = directions if scale == 1.0 else directions * scale

    def in_order(self, order: Tensor) -> "Sums":
        """The same sums of UEs that come in another order; rows of UEs are put aside."""
        per_ue = None if self.per_ue is None else torch.empty_like(self.per_ue)
        return replace(self, matrix=self.matrix[:, order], per_ue=per_ue)

    def clipped(self, squared: Tensor) -> "Sums":
        """The sums of directions with these squared norms [u], each scaled down to its norm in `clip`.

        Rows of UEs are not scaled: whoever asks for them clips them before.
        """
        assert self.clip is not None
        return replace(self, matrix=self.matrix * clip_factors(squared, self.clip).to(self.matrix), clip=None)

    @property
    def shares(self) -> Tensor:
        """Each UE's weight in its group, [u]."""
        return self.matrix.sum(0)


@dataclass(frozen=True)
class Losses:
    """Each UE's losses [u] at the start and after adaptation, in its first local step, and what it keeps now."""

    loss: Tensor
    meta_loss: Tensor
    kept: Tensor | None = None  # [u, S], of a method
    variance: Tensor | None = None  # [u, C]: what each chain that was asked of would add
    squared: Tensor | None = None  # [u] in float64: squared norms before clipping, where that was asked for


def clip_factors(squared: Tensor, clip: Tensor) -> Tensor:
    """`min(1, C / norm)` [u] of directions with these squared norms."""
    return (clip / squared.clamp_min(torch.finfo(torch.float64).tiny).sqrt()).clamp_max(1.0)


class Engine(Protocol):
    """Gradients of a chunk of UEs."""

    @property
    def clips(self) -> bool:
        """Whether `updates` clips by norms that it takes without a row for each UE."""

    @property
    def preferred_samples(self) -> int | None:
        """Samples per chunk that suit the caches best; None: as many as fit the memory."""

    @property
    def side_by_side(self) -> bool:
        """Whether chunks are best computed several at once, a core each."""

    @property
    def preferred_ues(self) -> int | None:
        """UEs per chunk that suit the caches best, whatever their samples; None: `preferred_samples` tells."""

    def updates(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None = None
    ) -> Losses:
        """Add the update directions over all local steps from `start` [P], or [u, P] with a row per UE, to `sums`.

        `kept` [u, S] is what the UEs keep, where they compute by a method that is no objective.
        """

    def evaluation(
        self, parameters: Tensor, train: Batch, test: Batch, training: LocalTraining, kept: Tensor | None = None
    ) -> Tested:
        """Losses before and after the inner steps of `training`, and what both models say of the test samples."""


class InPlaceEngine(Engine, Protocol):
    """An engine that forms no row for each UE: it adds up, and writes what UEs keep, where these belong."""

    in_place: bool

    def updates_in_place(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None, now: Tensor | None
    ) -> Losses:
        """As `updates`, for what travels; what UEs keep is written to `now` [u, S], where there is room for it."""


def is_in_place(engine: Engine) -> TypeGuard[InPlaceEngine]:
    """Whether an engine computes so."""
    return bool(getattr(engine, "in_place", False))


def try_one(engine: Engine, start: Tensor, batch: Batch) -> None:
    """Compute the update of one UE's batch from `start` [P] for nobody."""
    engine.updates(start, [{"support": batch}], Sums(torch.zeros_like(start).unsqueeze(0), start.new_ones(1, 1)))


def shares_of(groups: IntArray, num_groups: int, weights: FloatArray | None) -> FloatArray:
    """Each UE's weight in its group, adding up to 1 in every group."""
    own = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(own) & (own >= 0)))
    if len(wrong):
        raise ValueError(f"weights[{wrong[0]}] is {own[wrong[0]]}; wanted a finite number not below 0")
    total = np.bincount(groups, weights=own, minlength=num_groups)[groups]
    if np.any(total == 0):
        raise ValueError(f"the weights of group {int(groups[total == 0][0])} add up to 0; wanted a positive sum")
    return own / total
