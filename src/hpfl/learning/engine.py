"""What every engine takes and gives: a chunk of UEs, the parameters they start from, and how groups sum them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.objective import LocalTraining
from hpfl.rng import FloatArray, IntArray


@dataclass(frozen=True)
class Sums:
    """Where a chunk's directions are added up: `total[group] += share * direction`, and rows of UEs where asked for."""

    total: Tensor  # [groups, P], added to in place
    groups: IntArray  # [u], nondecreasing: the group of each UE of the chunk
    shares: Tensor  # [u]: each UE's weight in its group
    per_ue: Tensor | None = None  # [u, P], written

    def add(self, directions: Tensor, where: slice = slice(None)) -> None:
        """Add directions [u, p] in some places of the vector: one product over the groups present, so bits repeat."""
        first, last = int(self.groups[0]), int(self.groups[-1]) + 1
        self.total[first:last, where].addmm_(self._matrix, directions)
        if self.per_ue is not None:
            self.per_ue[:, where] = directions

    @cached_property
    def _matrix(self) -> Tensor:
        """Shares [groups present, u], zero outside a UE's own group."""
        present = torch.arange(int(self.groups[0]), int(self.groups[-1]) + 1)
        own = present[:, None] == torch.from_numpy(self.groups)
        return self.shares * own.to(self.shares.device)

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """(group, first UE, end) of each stretch of the chunk that belongs to one group."""
        cuts = np.flatnonzero(np.diff(self.groups)) + 1
        edges = [0, *cuts.tolist(), len(self.groups)]
        return [(int(self.groups[a]), a, b) for a, b in pairwise(edges)]


@dataclass(frozen=True)
class Losses:
    """Each UE's losses [u] at the start and after adaptation, in its first local step."""

    loss: Tensor
    meta_loss: Tensor


@dataclass(frozen=True)
class ChunkEvaluation:
    """Per-UE figures [u] of a chunk."""

    loss: Tensor
    meta_loss: Tensor
    personalised_accuracy: Tensor
    global_accuracy: Tensor


class Engine(Protocol):
    """Gradients of a chunk of UEs."""

    @property
    def preferred_samples(self) -> int | None:
        """Samples per chunk that suit the caches best; None: as many as fit the memory."""

    def updates(self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums) -> Losses:
        """Add the update directions over all local steps from `start` [P], or [u, P] with a row per UE, to `sums`."""

    def evaluation(self, parameters: Tensor, train: Batch, test: Batch, training: LocalTraining) -> ChunkEvaluation:
        """Losses and accuracies before and after the inner steps of `training`."""


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
