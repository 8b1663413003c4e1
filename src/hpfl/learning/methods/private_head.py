"""What methods with a private head share: which parameters it has, that they stay, and the model with it."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hpfl.learning.heads import in_head
from hpfl.learning.local_descent import Moves
from hpfl.learning.method import BaseMethod, UeCalculus, with_entries
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.layers import Params
from hpfl.learning.task import ParameterSpec


class PrivateHead(BaseMethod):
    """UEs keep the head and send the body."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: Any) -> None:
        self.options = options

    def entries(self, spec: ParameterSpec) -> Tensor:
        """Places of the head's parameters in a flat vector, [h]."""
        return in_head(spec, self.options.head).nonzero()[:, 0]

    def joined(self, spec: ParameterSpec, params: Tensor, head: Tensor) -> Tensor:
        """A model with another head."""
        return with_entries(params, self.entries(spec), head)

    def begun(self, ues: AtOnce) -> tuple[Params, tuple[list[str], list[str]]]:
        """The model of each UE with its own head, and the names of head and body."""
        head = Moves.of(ues.chunk.spec, in_head(ues.chunk.spec, self.options.head)).names
        names = [name for name in ues.names if name in head], [name for name in ues.names if name not in head]
        return ues.model("model", own=names[0]), names

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The head."""
        return len(self.entries(spec))

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The head that all begin with."""
        return params[self.entries(spec).to(params.device)]

    def travels(self, spec: ParameterSpec) -> Tensor:
        """The body."""
        return ~in_head(spec, self.options.head)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The shared body with the UE's own head."""
        return self.joined(ue.spec, params, kept)
