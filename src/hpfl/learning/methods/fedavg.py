"""FedAvg: a UE's update is the gradient of its loss at the model it received (McMahan et al., 2017)."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus, descended
from hpfl.learning.objective import LocalTraining


@METHODS.register("fedavg", objective=True, reads=(), epochs=True)
class FedAvg(BaseMethod):
    """The plain gradient; UEs still adapt the model before they are evaluated."""

    def as_objective(self, training: LocalTraining) -> LocalTraining:
        """The same local training without an inner step."""
        return replace(training, inner_lr=0.0)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The plain gradients of all local steps."""
        total, _, losses = descended(steps, params, self.as_objective(training))
        return Local(total, kept, *losses)
