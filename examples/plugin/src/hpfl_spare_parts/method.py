"""Method `own-head`: all UEs share a body, each has a head of its own (FedPer, Arivazhagan et al., 2019)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpfl import part
from hpfl.learning import BaseMethod, Local, LocalTraining, ParameterSpec, UeCalculus
from hpfl.options import Options, option


class FedPerOptions(Options):
    """Options of method `own-head`."""

    head: int = option(2, "tensors at the model's end that stay with the UE (a layer has a weight and a bias)", ge=1)


@part(options=FedPerOptions, reads=())
class FedPer(BaseMethod):
    """Gradient steps on the whole model, whose last layer never leaves the UE."""

    roles = ("support",)  # one batch for a local step

    def __init__(self, *, options: FedPerOptions) -> None:
        self.head = options.head

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The head's numbers."""
        return sum(spec.sizes[-self.head :])

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The head of the model that all begin with."""
        return params[-self.numbers_kept(spec) :]

    def travels(self, spec: ParameterSpec) -> Tensor:
        """The body."""
        return torch.arange(spec.num_parameters) < spec.num_parameters - self.numbers_kept(spec)

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """Gradient steps on body and head together."""
        point, directions, losses = _own(params, kept), [], []
        for step in steps:
            found = step.gradient(point)
            point = point - training.outer_lr * found.direction
            directions.append(found.direction)
            losses.append(found.loss)
        return Local(sum(directions), point[-len(kept) :], losses[0], losses[0])

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The shared body with the UE's own head."""
        return _own(params, kept)


def _own(params: Tensor, kept: Tensor) -> Tensor:
    return torch.cat([params[: -len(kept)], kept])
