"""Local training: nobody talks. A UE trains a model of its own, `v_i <- v_i - eta grad f_i(v_i)`, and sends nothing.

What others add is measured against it. It keeps `v_i`; nothing travels; `v_i` is evaluated.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpfl.learning.local_descent import Descent, Sgd
from hpfl.learning.method import METHODS, Local, UeCalculus
from hpfl.learning.methods.own_model import OwnModel
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.task import ParameterSpec


@METHODS.register(
    "local", options="hpfl.learning.methods.method_options:SgdOptions", reads=(), epochs=True, silent=True
)
class LocalOnly(OwnModel):
    """Nobody talks: each UE trains a model of its own, which is what it is evaluated with."""

    silent = True

    def __init__(self, *, options: Sgd) -> None:
        self.options = options

    def travels(self, spec: ParameterSpec) -> Tensor:
        """Nothing."""
        return torch.zeros(spec.num_parameters, dtype=torch.bool)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD on the UE's own model."""
        end, loss = Descent.by(self.options, training.outer_lr).walk(steps, kept)
        return Local(torch.zeros_like(params), end, loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        mine = ues.model("mine", own=ues.names)
        loss = Descent.by(self.options, training.outer_lr).at_once(ues, mine)
        ues.keep(mine)
        return loss, loss
