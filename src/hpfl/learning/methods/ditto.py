"""Ditto: a personal model beside the shared one, `v_i <- v_i - eta (grad f_i(v_i) + lambda (v_i - w_t))`.

`w_t` is the model that came, and is trained as FedAvg's (Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated
Learning Through Personalization*, ICML 2021, Algorithm 1). A UE keeps `v_i`; the model travels; `v_i` is evaluated. The
paper tunes `lambda` for each data set.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from hpfl.learning.local_descent import Descent, Sgd, direction
from hpfl.learning.method import METHODS, Local, UeCalculus
from hpfl.learning.methods.own_model import OwnModel
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce


class _SpringOptions(Sgd, Protocol):
    @property
    def penalty(self) -> float: ...
    @property
    def personal_lr(self) -> float | None: ...


@METHODS.register("ditto", options="hpfl.learning.methods.method_options:DittoOptions", reads=(), epochs=True)
class Ditto(OwnModel):
    """A personal model beside the shared one, drawn to it by a spring."""

    def __init__(self, *, options: _SpringOptions) -> None:
        self.options = options

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """FedAvg's steps for the shared model, as many for the personal one."""
        own = self.options
        end, loss = Descent.by(own, training.outer_lr).walk(steps, params)
        rate = own.personal_lr or training.outer_lr
        drawn = Descent.by(own, rate, spring=own.penalty, centre=params)
        mine, before = drawn.walk(steps, kept)
        return Local(direction(params, end, training), mine, loss, before)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        own, point = self.options, ues.model("model")
        loss = Descent.by(own, training.outer_lr).at_once(ues, point)
        ues.send(point)
        mine, rate = ues.model("model", own=ues.names), own.personal_lr or training.outer_lr
        before = Descent.by(own, rate, spring=own.penalty, centre=ues.start).at_once(ues, mine)
        ues.keep(mine)
        return loss, before
