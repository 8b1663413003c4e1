"""Noise in what leaves a cell: the mean of its clipped updates, and how its clip norm follows their norms.

The sum of a cell's n clipped updates gets noise of standard deviation `z C` in every number that travels, so the mean
`z C / n`. Without one UE, each sum is shorter by at most its sensitivity: C, and 1/2 for the count `sum (b_i - 1/2)` of
updates that are not clipped. Who takes part, and so n, is taken to be known.

The clip norm follows a quantile gamma of the norms by `C <- C exp(-eta (b - gamma))`, b the noised share of updates
that are not clipped (Andrew, Thakkar, McMahan, Ramaswamy: *Differentially Private Learning with Adaptive Clipping*,
NeurIPS 2021, algorithm 1). Each cell follows its own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning import Draws
from hpfl.rng import Streams
from hpfl.training.combine import RuleState

BY_UE, BY_EDGE = "privacy/ue", "privacy/edge"
"""Purposes of the draws of noise: keyed by base round and edge round, and by the number of who adds it."""
CLIP_NORM = "clip_norm"
MOST_NOISE = 12.0
"""Standard deviations of a UE's own noise that there is room for where it is sent as whole numbers."""
_COUNT_SENSITIVITY = 0.5
_AT_ONCE = 1 << 21  # numbers drawn in one go
_CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """The share of updates that is not to be clipped, how fast the norm follows, and the noise of the count."""

    target: float
    step: float
    noise_multiplier: float

    def moved(self, clip: FloatArray, below: FloatArray) -> FloatArray:
        """The next clip norms [E] where so large shares were not clipped."""
        return np.asarray(clip * np.exp(-self.step * (np.clip(below, 0.0, 1.0) - self.target)))


@dataclass(frozen=True)
class Cells:
    """Some cells in an edge round: numbers [E] of their edges, their UEs [n] in the order of edges, and whose they are.

    `key` is that of the round's draws.
    """

    numbers: IntArray
    ues: IntArray
    edge_of: IntArray
    key: int

    @property
    def counts(self) -> IntArray:
        """UEs that take part, [E]."""
        return np.asarray(np.bincount(self.edge_of, minlength=len(self.numbers)), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class CellPrivacy:
    """How cells are private: noise multiplier z, first clip norm C, and who adds the noise.

    With noise at the "cell" each UE adds `N(0, (z C)^2 / m)`, m the `planned` number [K] of its cell; where fewer take
    part the edge adds what lacks. `places` are the parameters that travel; None: all.
    """

    noise_multiplier: float
    clip_norm: float
    noise_at: Literal["cell", "edge"]
    planned: IntArray
    streams: Streams
    places: torch.Tensor | None = None
    quantile: Quantile | None = None

    @property
    def multipliers(self) -> tuple[float, ...]:
        """The noise multipliers of what is in a release."""
        own = (self.noise_multiplier,)
        return own if self.quantile is None else (*own, self.quantile.noise_multiplier)

    def clip_norms(self, rules: Sequence[RuleState], num_edges: int) -> FloatArray:
        """The clip norms [E] of cells that remember these."""
        known = [rule.get(CLIP_NORM, self.clip_norm) for rule in rules] or [self.clip_norm] * num_edges
        return np.array(known, dtype=np.float64)

    def released(
        self, means: torch.Tensor, norms: FloatArray, cells: Cells, clip: FloatArray
    ) -> tuple[torch.Tensor, Sequence[RuleState]]:
        """The noised means [E, P] of updates that were clipped to `clip` [E], and what the cells remember now.

        `norms` [n] are those before clipping.
        """
        noise, counts = self.unit_noise(cells, self._numbers(means) + 1), cells.counts
        scales = torch.from_numpy(self.noise_multiplier * clip / counts)[:, None]
        noised = means + self._spread(noise[:, :-1] * scales, means).to(means)
        if self.quantile is None:
            return noised, ()
        unclipped = np.bincount(cells.edge_of, weights=norms <= clip[cells.edge_of], minlength=len(counts))
        spread = _COUNT_SENSITIVITY * self.quantile.noise_multiplier
        below = (unclipped - counts / 2 + spread * noise[:, -1].numpy()) / counts + 0.5
        now = self.quantile.moved(clip, below)
        return noised, [{CLIP_NORM: float(norm)} for norm in now]

    def unit_noise(self, cells: Cells, numbers: int) -> torch.Tensor:
        """Noise [E, numbers] of each cell's sum in float64, of standard deviation 1 (more where more UEs than planned).

        The last of the numbers is that of the count.
        """
        if self.noise_at == "edge":
            return self._drawn(BY_EDGE, cells.numbers, numbers, cells.key)
        planned, counts = self.planned[cells.numbers], cells.counts
        total = torch.zeros(len(counts), numbers, dtype=torch.float64)
        for at in _stretches(len(cells.ues), numbers):
            own = self._drawn(BY_UE, cells.ues[at], numbers, cells.key)
            total.index_add_(0, torch.from_numpy(cells.edge_of[at]), own)  # on a CPU one by one, so that bits repeat
        total *= torch.from_numpy(1.0 / np.sqrt(planned))[:, None]
        lacking = np.flatnonzero(counts < planned)
        if lacking.size:
            more = self._drawn(BY_EDGE, cells.numbers[lacking], numbers, cells.key)
            total[torch.from_numpy(lacking)] += (
                more * torch.from_numpy(np.sqrt(1 - (counts / planned)[lacking]))[:, None]
            )
        return total

    def _drawn(self, purpose: str, members: IntArray, numbers: int, key: int) -> torch.Tensor:
        return Draws(self.streams, key, members, _CPU, purpose).normal(numbers)

    def spread(self, numbers: FloatArray, length: int) -> FloatArray:
        """Numbers where parameters travel, of `length`, and 0 where none does."""
        if self.places is None:
            return numbers
        whole = np.zeros(length)
        whole[self.places.cpu().numpy()] = numbers
        return whole

    def _numbers(self, means: torch.Tensor) -> int:
        return means.shape[1] if self.places is None else len(self.places)

    def _spread(self, noise: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
        """The noise where parameters travel, and 0 where none does."""
        if self.places is None:
            return noise
        return torch.zeros(means.shape, dtype=noise.dtype).index_copy_(1, self.places.cpu(), noise)


def planned_shares(wanted: IntArray, share: float) -> IntArray:
    """For how many UEs' shares the noise of each cell is made, where so many are to take part."""
    return np.asarray(np.maximum(np.ceil(wanted * share - 1e-9), 1), dtype=np.int64)


def share_of_noise(noise_multiplier: float, clip_norm: float, planned: int) -> float:
    """The standard deviation of what one UE adds."""
    return noise_multiplier * clip_norm / math.sqrt(planned)


def _stretches(count: int, numbers: int) -> Iterator[slice]:
    step = max(_AT_ONCE // numbers, 1)
    return (slice(first, first + step) for first in range(0, count, step))
