"""One update and one evaluation of two made-up UEs, by which an engine is compared with another before it is taken.

Inputs are drawn, so that no two numbers tie and nothing is flat; targets are those of the data. A step would take a
tenth of the loss away if that were linear: far enough to tell, near enough not to blow roundings up.
"""

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from hpfl.learning.batches import Batch, Samples, sample_weights, spread
from hpfl.learning.engine import Engine, Sums
from hpfl.learning.general import GeneralEngine
from hpfl.learning.metrics import DEFAULT_METRICS, figures_of
from hpfl.learning.objective import LocalTraining
from hpfl.learning.placement import Gram
from hpfl.learning.task import Task

_SIZES = np.array([3, 2])  # samples of the two UEs, of which the second is padded
_SHARES = np.array([0.25, 0.75])
_MOST_STEPS = 2  # of either kind: a third does what the second did
_STEP = 0.1  # of the loss
_MOST_EXACT = 10_000_000  # parameters, of which a rehearsal holds some twenty copies
_BOUND = {torch.float64: 1e-6, torch.float32: 0.05}  # in float32 a rounding may turn a ReLU or a maximum
_FLOOR = 1e-3  # of the whole update: what a part of it is compared with where it vanishes


@dataclass(frozen=True)
class Rehearsed:
    """What an engine makes of a rehearsal, on a CPU."""

    parameters: list[Tensor]  # the update, a tensor for each parameter
    figures: list[Tensor]  # losses, and the evaluation

    def near(self, other: "Rehearsed", bound: float) -> bool:
        """Whether every part differs from the other's by at most a share of that."""
        sizes = [float(part.norm()) for part in other.parameters]
        floor = _FLOOR * sum(size**2 for size in sizes) ** 0.5
        updates = zip(self.parameters, other.parameters, sizes, strict=True)
        figures = zip(self.figures, other.figures, strict=True)
        return all(float((a - b).norm()) <= bound * (size + floor) for a, b, size in updates) and all(
            torch.allclose(a, b, rtol=bound, atol=bound * _FLOOR, equal_nan=True) for a, b in figures
        )


@dataclass(frozen=True)
class Rehearsal:
    """What two UEs compute on, from where, and how far they step."""

    task: Task
    training: LocalTraining
    start: Tensor  # [P]
    batches: dict[str, Batch]  # by role
    test: Batch

    @staticmethod
    def of(task: Task, training: LocalTraining, samples: Samples) -> "Rehearsal":
        """Drawn inputs with targets of the data, on a CPU and in float64 where that does not take too much memory."""
        dtype = torch.float64 if task.spec.num_parameters <= _MOST_EXACT else samples.dtype
        own, draws = task.to(torch.device("cpu"), dtype), torch.Generator().manual_seed(0)
        test, *by_role = (_moved(_batch(own, samples, draws), dtype) for _ in ("test", *training.roles))
        batches: dict[str, Batch] = dict(zip(training.roles, by_role, strict=True))
        still = replace(training, inner_lr=0.0, local_steps=1)
        start = own.trial_parameters()
        size = Rehearsal(own, still, start, batches, test)._step_size()
        inner, local = (min(max(n, 1), _MOST_STEPS) for n in (training.inner_steps, training.local_steps))
        moving = replace(training, inner_lr=size, outer_lr=size, inner_steps=inner, local_steps=local)
        return Rehearsal(own, moving, start, batches, test)

    def on(self, device: torch.device, dtype: torch.dtype) -> "Rehearsal":
        """The same on another device, in another precision."""
        batches = {role: _moved(batch, dtype, device) for role, batch in self.batches.items()}
        start, test = self.start.to(device, dtype), _moved(self.test, dtype, device)
        return Rehearsal(self.task.to(device, dtype), self.training, start, batches, test)

    def expected(self) -> Rehearsed:
        """What the general engine makes of it."""
        return self._outcome(self._general(), self.batches, self.start)

    def gives(self, engine: Engine, expected: Rehearsed, gram: Gram | None) -> bool:
        """Whether an engine gives what is expected: inner products kept or not, from one start or one of each UE."""
        kept = [self.batches]
        if gram is not None:
            kept.append({role: replace(batch, gram=gram(batch)) for role, batch in self.batches.items()})
        ways = [(own, self.start) for own in kept] + [(self.batches, self.start.repeat(len(_SIZES), 1))]
        bound = _BOUND[self.start.dtype]
        return all(self._outcome(engine, own, start).near(expected, bound) for own, start in ways)

    def _outcome(self, engine: Engine, batches: dict[str, Batch], start: Tensor) -> Rehearsed:
        update, losses = self._update(engine, batches, start)
        tested = engine.evaluation(self.start, batches["support"], self.test, self.training)
        figures = figures_of(tested, DEFAULT_METRICS)
        parts = self.task.spec.unflatten(update).values()
        return Rehearsed(
            [part.to(self.start.dtype).cpu() for part in parts], [losses.double().cpu(), figures.double().cpu()]
        )

    def _update(self, engine: Engine, batches: dict[str, Batch], start: Tensor) -> tuple[Tensor, Tensor]:
        total = self.start.new_zeros(1, len(self.start))
        sums = Sums.of(total, np.zeros(len(_SIZES), dtype=np.int64), _SHARES)
        found = engine.updates(start, [batches] * self.training.local_steps, sums)
        return total[0], torch.stack([found.loss, found.meta_loss])

    def _step_size(self) -> float:
        update, losses = self._update(self._general(), self.batches, self.start)
        size = _STEP * float(losses.abs().mean() / update.square().sum())
        return size if isfinite(size) and size > 0 else 1.0

    def _general(self) -> GeneralEngine:
        return GeneralEngine(self.task, self.training, one_by_one=True)


def _batch(task: Task, samples: Samples, draws: torch.Generator) -> Batch:
    """Drawn inputs for both UEs, with some of the data's targets."""
    count, width = len(_SIZES), int(_SIZES.max())
    rows = spread(len(samples.targets), count * width)
    rows = rows[torch.randint(len(rows), (count, width), generator=draws)]
    targets = samples.targets[rows.to(samples.targets.device)].cpu()
    inputs = torch.randn(count, width, *samples.inputs.shape[1:], generator=draws, dtype=torch.float64)
    return Batch(inputs, targets, sample_weights(targets, _SIZES, task.mass))


def _moved(batch: Batch, dtype: torch.dtype, device: torch.device | None = None) -> Batch:
    targets = batch.targets.to(device, dtype if batch.targets.is_floating_point() else None)
    return Batch(batch.inputs.to(device, dtype), targets, batch.weights.to(device, dtype))
