"""FedRep: the head first, under the body as it came; then the body, under the new head.

`h_i <- h_i - eta grad_h f_i(b, h_i)`, many times; then `b_i <- b_i - eta grad_b f_i(b_i, h_i)` (Collins, Hassani,
Mokhtari, Shakkottai: *Exploiting Shared Representations for Personalized Federated Learning*, ICML 2021, Algorithm 1;
ten passes for the head, one for the body and momentum 0.5 in its experiments). A UE keeps the head; the body travels;
the shared body with the UE's own head is evaluated.
"""

from collections.abc import Sequence

from torch import Tensor

from hpfl.learning.heads import in_head
from hpfl.learning.local_descent import Descent, Moves, direction
from hpfl.learning.method import METHODS, Local, UeCalculus
from hpfl.learning.methods.private_head import PrivateHead
from hpfl.learning.objective import LocalTraining
from hpfl.learning.own.at_once import AtOnce


@METHODS.register("fedrep", options="hpfl.learning.methods.method_options:FedRepOptions", reads=(), epochs=True)
class FedRep(PrivateHead):
    """A shared body under a private head, trained one after the other; the head has more passes."""

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The head's passes, then one over the body."""
        own, spec = self.options, steps[0].spec
        head, rate = in_head(spec, own.head), training.outer_lr
        first, then = Moves.of(spec, head), Moves.of(spec, ~head)
        start = self.joined(spec, params, kept)
        fitted, loss = Descent.by(own, rate, moves=first).walk(list(steps) * own.head_passes, start)
        end, _ = Descent.by(own, rate, moves=then).walk(steps, fitted)
        return Local(direction(fitted, end, training), end[self.entries(spec).to(end.device)], loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        own, rate = self.options, training.outer_lr
        point, (head, body) = self.begun(ues)
        first, then = Moves(frozenset(head)), Moves(frozenset(body))
        loss = Descent.by(own, rate, moves=first).at_once(ues, point, own.head_passes)
        Descent.by(own, rate, moves=then).at_once(ues, point)
        ues.keep(point, head)
        ues.send(point, body)
        return loss, loss
