"""What methods share whose UEs keep a model of their own, and are evaluated with it."""

from collections.abc import Sequence

from torch import Tensor

from hpfl.learning.method import BaseMethod, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.task import ParameterSpec


class OwnModel(BaseMethod):
    """UEs keep a model, and begin with the one that all begin with."""

    roles: Sequence[Role] = ("support",)

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """A model."""
        return spec.num_parameters

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The one that all begin with."""
        return params

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The UE's own model."""
        return kept
