"""Per-FedAvg: a UE's update is the gradient of its loss after adaptation (Fallah et al., 2020), eq. (5) and (6)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus, descended
from hpfl.learning.objective import LocalTraining


class _Options(Protocol):
    @property
    def gradient(self) -> str: ...
    @property
    def delta(self) -> float: ...


@METHODS.register(
    "per-fedavg",
    options="hpfl.learning.methods.per_fedavg_options:PerFedAvgOptions",
    objective=True,
    reads=("inner_lr", "inner_steps"),
    epochs=True,
)
class PerFedAvg(BaseMethod):
    """The gradient of the loss after adaptation."""

    def __init__(self, *, options: _Options) -> None:
        self.options = options

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training by the objective's name."""
        return replace(training, objective=self.options.gradient, hessian_free_delta=self.options.delta)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The objective's directions of all local steps."""
        total, _, losses = descended(steps, params, self.as_objective(training))
        return Local(total, kept, *losses)
