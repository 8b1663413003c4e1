"""FedAvg with fine-tuning: FedAvg's model, trained on by each UE before it is evaluated.

`theta_i = w - eta sum_s grad f_i(theta_i^s)`, from `theta_i^0 = w` (Wang, Mathews, Kiddon, Eichner, Beaufays, Ramage:
*Federated Evaluation of On-device Personalization*, arXiv:1910.10252, 2019; with ten passes in Collins et al., ICML
2021). A UE keeps nothing; the model travels; `theta_i` is evaluated.
"""

from collections.abc import Sequence

from torch import Tensor

from hpfl.learning.local_descent import Descent, FineTuning, direction, fine_tuned
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce


@METHODS.register("fedavg-ft", options="hpfl.learning.methods.method_options:FineTunedOptions", reads=(), epochs=True)
class FedAvgFineTuned(BaseMethod):
    """FedAvg, whose model each UE fine-tunes on all its samples before it is evaluated."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: FineTuning) -> None:
        self.options = options

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD from the model that came."""
        end, loss = Descent.by(self.options, training.outer_lr).walk(steps, params)
        return Local(direction(params, end, training), kept, loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        point = ues.model("model")
        loss = Descent.by(self.options, training.outer_lr).at_once(ues, point)
        ues.send(point)
        return loss, loss

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The model after the fine-tuning."""
        return fine_tuned(self.options, ue, params, training)
