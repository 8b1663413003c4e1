"""Local descent: a UE's SGD over its local steps, with momentum, weight decay, a pull, and parameters held fast."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.method import UeCalculus
from hpfl.learning.objective import LocalTraining

Pull = Callable[[Tensor], Tensor]
"""What is added to the gradient at a point."""


class Sgd(Protocol):
    """The options of a method that descends by SGD."""

    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


class FineTuning(Sgd, Protocol):
    """Of a method whose UEs fine-tune before they are evaluated, at the usual rate or one of its own."""

    @property
    def finetune_steps(self) -> int: ...
    @property
    def finetune_lr(self) -> float | None: ...


@dataclass(frozen=True)
class Descent:
    """How a UE descends: `p <- p - rate * (momentum * speed + slope)`, with the pull and the decay in the slope."""

    rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    pull: Pull | None = None  # added to the gradient at a point: a proximal term, a correction
    moves: Tensor | None = None  # [P]: 1 where parameters move, 0 where they are held fast; None: all move

    @staticmethod
    def by(options: Sgd, rate: float, *, pull: Pull | None = None, moves: Tensor | None = None) -> "Descent":
        """The descent of a method with these options."""
        return Descent(rate, options.momentum, options.weight_decay, pull, moves)

    def slope(self, step: UeCalculus, point: Tensor) -> tuple[Tensor, Tensor]:
        """What is descended at a point, and the loss there."""
        found = step.gradient(point)
        slope = found.direction
        if self.pull is not None:
            slope = slope + self.pull(point)
        if self.weight_decay:
            slope = slope + self.weight_decay * point
        return (slope if self.moves is None else slope * self.moves.to(slope)), found.loss

    def walk(self, steps: Sequence[UeCalculus], start: Tensor) -> tuple[Tensor, Tensor]:
        """Where the steps lead from `start`, and the loss there; a step that is not active changes nothing."""
        point, speed, first = start, torch.zeros_like(start), None
        for step in steps:
            slope, loss = self.slope(step, point)
            speed = torch.where(step.active, self.momentum * speed + slope, speed)
            point = torch.where(step.active, point - self.rate * speed, point)
            first = loss if first is None else first
        assert first is not None
        return point, first


def direction(start: Tensor, end: Tensor, training: LocalTraining) -> Tensor:
    """The update that takes everybody's mean from `start` to the mean of the ends."""
    return (start - end) / training.outer_lr


def fine_tuned(
    options: FineTuning, ue: UeCalculus, params: Tensor, training: LocalTraining, moves: Tensor | None = None
) -> Tensor:
    """A model after full-batch steps on the UE's samples, of all of it or of the parameters that move."""
    if not options.finetune_steps:
        return params
    descent = Descent.by(options, options.finetune_lr or training.outer_lr, moves=moves)
    return descent.walk([ue] * options.finetune_steps, params)[0]
