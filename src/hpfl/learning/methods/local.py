"""Local training: nobody talks. A UE trains a model of its own, `v_i <- v_i - eta grad f_i(v_i)`, and sends nothing.

What others add is measured against it. It keeps `v_i`; nothing travels; `v_i` is evaluated.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.local_descent import Descent
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.task import ParameterSpec


class _Options(Protocol):
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


@METHODS.register(
    "local", options="hpfl.learning.methods.method_options:SgdOptions", reads=(), epochs=True, silent=True
)
class LocalOnly(BaseMethod):
    """Nobody talks: each UE trains a model of its own, which is what it is evaluated with."""

    roles: Sequence[Role] = ("support",)
    silent = True

    def __init__(self, *, options: _Options) -> None:
        self.options = options

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """A model."""
        return spec.num_parameters

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The one that all begin with."""
        return params

    def travels(self, spec: ParameterSpec) -> Tensor:
        """Nothing."""
        return torch.zeros(spec.num_parameters, dtype=torch.bool)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD on the UE's own model."""
        own = self.options
        end, loss = Descent(training.outer_lr, own.momentum, own.weight_decay).walk(steps, kept)
        return Local(torch.zeros_like(params), end, loss, loss)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The UE's own model."""
        return kept
