"""FedPer: the body is shared, the head is private; both are trained at once.

`(b, h_i) <- (b, h_i) - eta grad f_i(b, h_i)` (Arivazhagan, Aggarwal, Singh, Choudhary: *Federated Learning with
Personalization Layers*, arXiv:1912.00818, 2019, Algorithm 1). A UE keeps the head; the body travels; the shared body
with the UE's own head is evaluated.
"""

from collections.abc import Sequence

from torch import Tensor

from hpfl.learning.local_descent import Descent, direction
from hpfl.learning.method import METHODS, Local, UeCalculus
from hpfl.learning.methods.private_head import PrivateHead
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce


@METHODS.register("fedper", options="hpfl.learning.methods.method_options:HeadOptions", reads=(), epochs=True)
class FedPer(PrivateHead):
    """A shared body under a private head, trained at once."""

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """SGD on both."""
        start = self.joined(steps[0].spec, params, kept)
        end, loss = Descent.by(self.options, training.outer_lr).walk(steps, start)
        return Local(direction(start, end, training), end[self.entries(steps[0].spec).to(end.device)], loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        point, (head, body) = self.begun(ues)
        loss = Descent.by(self.options, training.outer_lr).at_once(ues, point)
        ues.keep(point, head)
        ues.send(point, body)
        return loss, loss
