"""FedAvg with fine-tuning: FedAvg's model, trained on by each UE before it is evaluated.

`theta_i = w - eta sum_s grad f_i(theta_i^s)`, from `theta_i^0 = w` (Wang, Mathews, Kiddon, Eichner, Beaufays, Ramage:
*Federated Evaluation of On-device Personalization*, arXiv:1910.10252, 2019; with ten passes in Collins et al., ICML
2021). A UE keeps nothing; the model travels; `theta_i` is evaluated.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from hpfl.learning.local_descent import Descent, direction
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role


class _Options(Protocol):
    @property
    def momentum(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def finetune_steps(self) -> int: ...
    @property
    def finetune_lr(self) -> float | None: ...


@METHODS.register("fedavg-ft", options="hpfl.learning.methods.method_options:FineTunedOptions", reads=(), epochs=True)
class FedAvgFineTuned(BaseMethod):
    """FedAvg, whose model each UE fine-tunes on all its samples before it is evaluated."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: _Options) -> None:
        self.options = options

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD from the model that came."""
        own = self.options
        end, loss = Descent(training.outer_lr, own.momentum, own.weight_decay).walk(steps, params)
        return Local(direction(params, end, training), kept, loss, loss)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The model after the fine-tuning."""
        own = self.options
        if not own.finetune_steps:
            return params
        descent = Descent(own.finetune_lr or training.outer_lr, own.momentum, own.weight_decay)
        return descent.walk([ue] * own.finetune_steps, params)[0]
