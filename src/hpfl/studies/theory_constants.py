"""The constants of Assumptions 2 to 4 at one point of a run, from gradients and Hessian-vector products of its UEs.

Every figure is found at the point or between it and points close by, so it is a lower bound of the constant that the
paper assumes for all parameters. Power iteration, too, finds norms from below.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.curvature import Apply, Landscape, Leading, leading_eigenpairs, spectral_norms
from hpfl.rng import Streams
from hpfl.studies.theory_bounds import Constants

RANK = 16
"""Eigenpairs of the mean Hessian that are kept: comparing every UE with all of it would take n^2 products a step."""
_FIRST_STEPS, _LATER_STEPS = 6, 2  # of the subspace iteration; later points start from the eigenvectors before
_MOST_STEPS, _MOST_CHANGE_STEPS = 20, 8  # of a power iteration; a change of Hessians takes two products a step


@dataclass(frozen=True, kw_only=True)
class ConstantEstimate:
    """The constants seen at `round`, and what the lemmas speak of, measured directly."""

    round: int
    constants: Constants
    hessian_change: dict[str, float]  # largest |H_i(u) - H_i(w)| / |u - w| by kind of step from w to u
    hessian_tail: float  # hessian_diversity is sure to about this: the part of the mean Hessian left out
    meta_diversity: float  # root mean square distance of UEs' grad F_i from their mean (Lemma 2's left side, per UE)
    edge_diversity: float  # the largest of any edge: of its UEs' grad F_i from its own mean


@dataclass
class Estimator:
    """Estimates at one point after another; each power iteration goes on from the vectors it ended with."""

    landscape: Landscape
    edge_of: IntArray  # [n]: the edge of each UE of the landscape
    inner_lr: float
    outer_lr: float
    streams: Streams
    told: Callable[[str], None] = lambda what: None
    _warm: dict[str, Tensor] = field(default_factory=dict)

    def at(self, round_number: int, point: Tensor, before: Tensor | None) -> ConstantEstimate:
        """The constants at `point`; `before` is the model one round earlier."""
        self.told("gradients")
        land, alpha = self.landscape, self.inner_lr
        here = land.gradients(point)
        adapted = point - alpha * here
        there = land.gradients(adapted)
        shared = land.gradients(point - alpha * land.mean(here))  # Lemma 2 needs the diversity there as well
        meta = there - alpha * land.hessian_vectors(point, there)
        self.told("smoothness")
        smoothness = max(self._norms("hessian", self._hessian(point)).max().item(), _secant(here, there, alpha))
        self.told("Hessian diversity")
        hessian_diversity, tail = self._hessian_diversity(point)
        self.told("Hessian change")
        change = self._hessian_change(round_number, point, before, here)
        return ConstantEstimate(
            round=round_number,
            constants=Constants(
                smoothness=smoothness,
                gradient_bound=max(_longest(rows) for rows in (here, there, shared)),
                hessian_lipschitz=max(change.values(), default=0.0),
                gradient_diversity=max(land.diversity(here), land.diversity(shared)),
                hessian_diversity=hessian_diversity,
            ),
            hessian_change=change,
            hessian_tail=tail,
            meta_diversity=land.diversity(meta),
            edge_diversity=_widest_edge(meta, self.edge_of),
        )

    def _hessian(self, points: Tensor) -> Apply:
        return lambda vectors: self.landscape.hessian_vectors(points, vectors)

    def _norms(self, name: str, apply: Apply, most_steps: int = _MOST_STEPS) -> Tensor:
        start = self._start(name, self.landscape.num_ues)
        found = spectral_norms(apply, start, most_steps=most_steps)
        self._warm[name] = found.vectors
        return found.values

    def _hessian_diversity(self, point: Tensor) -> tuple[float, float]:
        """`gamma_H` at a point, with the mean Hessian cut down to its leading eigenpairs, and what that leaves out."""
        steps = _LATER_STEPS if "mean" in self._warm else _FIRST_STEPS
        start = self._start("mean", min(RANK, point.numel()))
        mean: Leading = leading_eigenpairs(
            lambda vectors: self.landscape.mean_hessian_vectors(point, vectors), start, steps=steps
        )
        self._warm["mean"] = mean.vectors
        own = self._hessian(point)
        norms = self._norms("difference", lambda vectors: own(vectors) - mean.apply(vectors))
        return self.landscape.root_mean_square(norms), mean.tail

    def _hessian_change(
        self, round_number: int, point: Tensor, before: Tensor | None, gradients: Tensor
    ) -> dict[str, float]:
        """Largest rate at which a UE's Hessian changes along the last step, a random one, and each UE's adaptation."""
        last = torch.zeros_like(point) if before is None else before - point
        length = torch.linalg.vector_norm(last)
        if not length > 0:
            length = self.outer_lr * torch.linalg.vector_norm(self.landscape.mean(gradients))
        random = self._normal("random step", round_number, 1).squeeze(0)
        steps = {
            "last step": last,
            "random step": random * (length / torch.linalg.vector_norm(random)),
            "adaptation": -self.inner_lr * gradients,
        }
        return {name: self._change_along(name, point, step) for name, step in steps.items() if bool(step.any())}

    def _change_along(self, name: str, point: Tensor, step: Tensor) -> float:
        here, there = self._hessian(point), self._hessian(point + step)
        moved = torch.linalg.vector_norm((point + step) - point, dim=-1)  # as it was rounded
        values = self._norms(name, lambda vectors: there(vectors) - here(vectors), _MOST_CHANGE_STEPS) / moved
        return float(values[torch.isfinite(values)].max())

    def _start(self, name: str, count: int) -> Tensor:
        return self._warm[name] if name in self._warm else self._normal(name, 0, count)

    def _normal(self, name: str, round_number: int, count: int) -> Tensor:
        like = self.landscape.task.flat_template()
        draws = self.streams.at(f"theory/{name}", round_number).normal(count * like.numel())
        return torch.from_numpy(draws).to(like).view(count, -1)


def _secant(here: Tensor, there: Tensor, alpha: float) -> float:
    """Largest change of a UE's gradient over the length of its adaptation step."""
    if alpha == 0:
        return 0.0
    lengths = alpha * torch.linalg.vector_norm(here, dim=1)
    rates = torch.linalg.vector_norm(there - here, dim=1) / lengths
    return float(rates[torch.isfinite(rates)].max()) if bool(lengths.any()) else 0.0


def _longest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=1).max())


def _widest_edge(rows: Tensor, edge_of: IntArray) -> float:
    """Largest over edges of the root mean square distance of [n, P] from their edge's mean."""
    kinds, number = np.unique(edge_of, return_inverse=True)
    place = torch.from_numpy(number).to(rows.device)
    counts = torch.bincount(place, minlength=len(kinds)).to(rows.dtype)
    means = rows.new_zeros(len(kinds), rows.shape[1]).index_add_(0, place, rows) / counts.unsqueeze(1)
    squares = (rows - means[place]).square().sum(1)
    return float((rows.new_zeros(len(kinds)).index_add_(0, place, squares) / counts).max().sqrt())
