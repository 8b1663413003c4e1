"""pFedMe: personal models near the shared one by Moreau envelopes.

`theta_i(w) = argmin f_i(theta) + (lambda / 2) |theta - w|^2`, of which each local step takes `K` gradient steps; then
`w_i <- w_i - eta lambda (w_i - theta_i)`; the cloud takes `w <- (1 - beta) w + beta mean(w_i)` (T Dinh, Tran, Nguyen:
*Personalized Federated Learning with Moreau Envelopes*, NeurIPS 2020, Algorithm 1). The paper leaves open where a
minimisation starts: here at the model that came, in later local steps where the last ended. A UE keeps `theta_i`; `w_i`
travels; `theta_i` is evaluated.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.local_descent import direction
from hpfl.learning.method import METHODS, Local, UeCalculus
from hpfl.learning.methods.own_model import OwnModel
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.own_calculus import envelope, together
from hpfl.learning.own.pairs import Envelope, envelop


class _MoreauOptions(Protocol):
    @property
    def penalty(self) -> float: ...
    @property
    def inner_steps(self) -> int: ...
    @property
    def personal_lr(self) -> float: ...
    @property
    def local_lr(self) -> float | None: ...
    @property
    def server_mix(self) -> float: ...


@METHODS.register("pfedme", options="hpfl.learning.methods.method_options:PFedMeOptions", reads=(), epochs=True)
class PFedMe(OwnModel):
    """Personal models near the shared one, which moves towards them (Moreau envelopes)."""

    def __init__(self, *, options: _MoreauOptions) -> None:
        self.options = options

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The local model `w_i` moves towards the personal model of each step."""
        own, near, theta, first = self.options, params, params, None
        pace = (own.local_lr or training.outer_lr) * own.penalty
        if together(steps):
            how = Envelope(own.personal_lr, own.penalty, own.inner_steps, pace)
            theta, near, loss = envelope(how, steps, params)
            return Local(own.server_mix * direction(params, near, training), theta, loss, loss)
        for step in steps:
            found, loss = self._personal(step, theta, near)
            theta = torch.where(step.active, found, theta)
            near = torch.where(step.active, near - pace * (near - theta), near)
            first = loss if first is None else first
        assert first is not None
        return Local(own.server_mix * direction(params, near, training), theta, first, first)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        own, pace = self.options, (self.options.local_lr or training.outer_lr) * self.options.penalty
        theta, near = ues.model("theta"), ues.model("near")
        how = Envelope(own.personal_lr, own.penalty, own.inner_steps, pace)
        loss = envelop(ues.chunk, how, ues.numbers, (theta, near))
        ues.keep(theta)
        ues.send(near, scale=own.server_mix)
        return loss, loss

    def _personal(self, step: UeCalculus, theta: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
        """Some gradient steps towards the personal model near a point, and the loss before them."""
        own, first = self.options, None
        for _ in range(own.inner_steps):
            found = step.gradient(theta)
            theta = theta - own.personal_lr * (found.direction + own.penalty * (theta - near))
            first = found.loss if first is None else first
        assert first is not None
        return theta, first
