"""FedProx: local steps on the loss with a proximal term, `h_i(w; w_t) = f_i(w) + (mu / 2) |w - w_t|^2`.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: *Federated Optimization in Heterogeneous Networks*, MLSys 2020, Algorithm
2. A UE keeps nothing; the model travels; UEs are evaluated as FedAvg's are, after the evaluation's inner steps. The
paper tunes `mu` (1 on MNIST, 0.001 to 1 elsewhere).
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from hpfl.learning.local_descent import Descent, Sgd, direction
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce


class _ProxOptions(Sgd, Protocol):
    @property
    def mu(self) -> float: ...


@METHODS.register("fedprox", options="hpfl.learning.methods.method_options:FedProxOptions", reads=(), epochs=True)
class FedProx(BaseMethod):
    """FedAvg whose local steps are drawn back to the model that came."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: _ProxOptions) -> None:
        self.options = options

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD on the loss with the proximal term."""
        own = self.options
        near = Descent.by(own, training.outer_lr, spring=own.mu, centre=params)
        end, loss = near.walk(steps, params)
        return Local(direction(params, end, training), kept, loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        own, point = self.options, ues.model("model")
        loss = Descent.by(own, training.outer_lr, spring=own.mu, centre=ues.start).at_once(ues, point)
        ues.send(point)
        return loss, loss
