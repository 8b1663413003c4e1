"""A UE's side of a round by name: its local update, and the model it is evaluated with."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from hpfl.learning.objective import LocalTraining
from hpfl.registry import Registry

if TYPE_CHECKING:
    from hpfl.learning.options import PerFedAvgOptions


class Method(Protocol):
    """A method that is one of the objectives, which every engine knows."""

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training by the objective's name."""
        ...


METHODS: Registry[Callable[..., Method]] = Registry("method", traits={"reads": None})
"""What makes a method. Trait `reads`: which of `inner_lr` and `inner_steps` matter to it (None: both may)."""


@METHODS.register("per-fedavg", options="hpfl.learning.options:PerFedAvgOptions", reads=("inner_lr", "inner_steps"))
class PerFedAvg:
    """Per-FedAvg: one model that each UE adapts by inner steps; with inner_lr = 0 it is FedAvg."""

    def __init__(self, *, options: "PerFedAvgOptions") -> None:
        self.options = options

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training by the objective's name."""
        return replace(training, objective=self.options.gradient, hessian_free_delta=self.options.delta)


@METHODS.register("fedavg", reads=())
class FedAvg:
    """FedAvg: one model for all, trained for no adaptation; UEs still adapt it before they are evaluated."""

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training without an inner step."""
        return replace(training, inner_lr=0.0)
