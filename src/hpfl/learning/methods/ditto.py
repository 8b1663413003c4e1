"""Ditto: a personal model beside the shared one, `v_i <- v_i - eta (grad f_i(v_i) + lambda (v_i - w_t))`.

`w_t` is the model that came, and is trained as FedAvg's (Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated
Learning Through Personalization*, ICML 2021, Algorithm 1). A UE keeps `v_i`; the model travels; `v_i` is evaluated. The
paper tunes `lambda` for each data set.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from hpfl.learning.local_descent import Descent, direction
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.task import ParameterSpec


class _Options(Protocol):
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def penalty(self) -> float: ...
    @property
    def personal_lr(self) -> float | None: ...


@METHODS.register("ditto", options="hpfl.learning.methods.method_options:DittoOptions", reads=(), epochs=True)
class Ditto(BaseMethod):
    """A personal model beside the shared one, drawn to it by a spring."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: _Options) -> None:
        self.options = options

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The personal model."""
        return spec.num_parameters

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The one that all begin with."""
        return params

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """FedAvg's steps for the shared model, as many for the personal one."""
        own = self.options
        end, loss = Descent(training.outer_lr, own.momentum, own.weight_decay).walk(steps, params)
        drawn = Descent(
            own.personal_lr or training.outer_lr,
            own.momentum,
            own.weight_decay,
            pull=lambda point: own.penalty * (point - params),
        )
        mine, before = drawn.walk(steps, kept)
        return Local(direction(params, end, training), mine, loss, before)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The personal model."""
        return kept
