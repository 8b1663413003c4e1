"""Local descent: a UE's SGD over its local steps, with momentum, weight decay, a pull, and parameters held fast."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hpfl.learning.method import UeCalculus
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.chunk import Pace
from hpfl.learning.own.layers import Params
from hpfl.learning.own.own_calculus import together, walked
from hpfl.learning.own.pairs import look_ahead
from hpfl.learning.task import ParameterSpec


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
class Moves:
    """Which parameters move: those of some names, or all but those."""

    names: frozenset[str]

    @staticmethod
    def of(spec: ParameterSpec, entries: Tensor) -> "Moves":
        """Those whose places in a vector are marked, bool [P]: all of a parameter, or nothing of it."""
        return Moves(frozenset(name for name, place in spec.places.items() if bool(entries[place].any())))

    def mask(self, spec: ParameterSpec, like: Tensor) -> Tensor:
        """1 where parameters move, 0 where they are held fast, [P]."""
        return torch.cat([like.new_full((n,), float(name in self.names)) for name, n in _sized(spec)])


@dataclass(frozen=True)
class Descent:
    """How a UE descends: `p <- p - rate * (momentum * speed + slope)`.

    The slope at `p` is `gradient + spring (p - centre) + drift + weight_decay p`, where parameters move.
    """

    rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    spring: float = 0.0
    centre: Tensor | None = None  # [P]: what a proximal term draws to
    drift: Tensor | None = None  # [P]: a correction that stays the same
    moves: Moves | None = None  # None: all move

    @staticmethod
    def by(options: Sgd, rate: float, **more: Any) -> "Descent":
        """The descent of a method with these options."""
        return Descent(rate, options.momentum, options.weight_decay, **more)

    def slope(self, step: UeCalculus, point: Tensor) -> tuple[Tensor, Tensor]:
        """What is descended at a point, and the loss there."""
        found = step.gradient(point)
        slope = found.direction
        if self.centre is not None:
            slope = slope + self.spring * (point - self.centre)
        if self.drift is not None:
            slope = slope + self.drift
        if self.weight_decay:
            slope = slope + self.weight_decay * point
        return (slope if self.moves is None else slope * self.moves.mask(step.spec, slope)), found.loss

    def walk(self, steps: Sequence[UeCalculus], start: Tensor) -> tuple[Tensor, Tensor]:
        """Where the steps lead from `start`, and the loss there; a step that is not active changes nothing."""
        if together(steps):
            own: Any = steps
            return walked(self._pace(own[0].chunk.network.names), own, start, self.centre, self.drift)
        point, speed, first = start, torch.zeros_like(start), None
        for step in steps:
            slope, loss = self.slope(step, point)
            speed = torch.where(step.active, self.momentum * speed + slope, speed)
            point = torch.where(step.active, point - self.rate * speed, point)
            first = loss if first is None else first
        assert first is not None
        return point, first

    def at_once(self, ues: AtOnce, point: Params, passes: int = 1) -> Tensor:
        """The same of all UEs of a chunk, in place; the losses [u] at first. The centre is a row for each UE."""
        pace = self._pace(ues.chunk.network.names)
        return ues.walk(pace, point, ues.chunk.towards(pace, self.centre, self.drift), passes)

    def _pace(self, names: frozenset[str]) -> Pace:
        moving = names if self.moves is None else names & self.moves.names
        return Pace(self.rate, self.momentum, self.weight_decay, 0.0 if self.centre is None else self.spring, moving)


def direction(start: Tensor, end: Tensor, training: LocalTraining) -> Tensor:
    """The update that takes everybody's mean from `start` to the mean of the ends."""
    return (start - end).div_(training.outer_lr)


def objective_at_once(ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
    """Plain and first-order objectives of all UEs of a chunk, in place; the first losses of models and adapted ones."""
    point = ues.model("model")
    if training.adapts:
        rates = training.inner_lr, training.outer_lr
        before, after = look_ahead(ues.chunk, rates, ues.numbers, (point, ues.empty("ahead")))
    else:
        before = after = Descent(training.outer_lr).at_once(ues, point)
    ues.send(point)
    return before, after


def num_taken(steps: Sequence[UeCalculus], like: Tensor) -> Tensor:
    """How many of the steps the UE takes."""
    if together(steps):
        own: Any = steps
        taken: Tensor = own[0].taken[torch.tensor([step.number for step in own], device=like.device)]
        return taken.sum().to(like)
    return torch.stack([step.active for step in steps]).sum().to(like)


def fine_tuned(
    options: FineTuning, ue: UeCalculus, params: Tensor, training: LocalTraining, moves: Moves | None = None
) -> Tensor:
    """A model after full-batch steps on the UE's samples, of all of it or of the parameters that move."""
    if not options.finetune_steps:
        return params
    descent = Descent.by(options, options.finetune_lr or training.outer_lr, moves=moves)
    return descent.walk([ue] * options.finetune_steps, params)[0]


def _sized(spec: ParameterSpec) -> list[tuple[str, int]]:
    return list(zip(spec.names, spec.sizes, strict=True))
