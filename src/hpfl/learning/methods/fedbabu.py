"""FedBABU: the body is trained under a head that stays as it was drawn; a UE fine-tunes before it is evaluated.

`b_i <- b_i - eta grad_b f_i(b_i, h_0)`; then, at evaluation, `theta_i <- theta_i - eta grad f_i(theta_i)` from `(b,
h_0)` (Oh, Kim, Yun: *FedBABU: Toward Enhanced Representation for Federated Image Classification*, ICLR 2022, Algorithm
1). A UE keeps nothing, for all have the same head; the body travels; the fine-tuned model is evaluated.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hpfl.learning.heads import in_head
from hpfl.learning.local_descent import Descent, Moves, direction, fine_tuned
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.task import ParameterSpec


@METHODS.register("fedbabu", options="hpfl.learning.methods.method_options:FedBabuOptions", reads=(), epochs=True)
class FedBabu(BaseMethod):
    """The body alone is trained, under a head that nobody trains; UEs fine-tune before they are evaluated."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: Any) -> None:
        self.options = options

    def travels(self, spec: ParameterSpec) -> Tensor:
        """The body."""
        return ~in_head(spec, self.options.head)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD on the body."""
        spec = steps[0].spec
        end, loss = Descent.by(self.options, training.outer_lr, moves=Moves.of(spec, self.travels(spec))).walk(
            steps, params
        )
        return Local(direction(params, end, training), kept, loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        spec, point = ues.chunk.spec, ues.model("model")
        body = Moves.of(spec, self.travels(spec))
        loss = Descent.by(self.options, training.outer_lr, moves=body).at_once(ues, point)
        ues.send(point, [name for name in ues.names if name in body.names])
        return loss, loss

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The model after the fine-tuning, of all of it or of a part."""
        head = in_head(ue.spec, self.options.head)
        entries = {"all": None, "body": ~head, "head": head}[self.options.finetune]
        moves = None if entries is None else Moves.of(ue.spec, entries)
        return fine_tuned(self.options, ue, params, training, moves)
