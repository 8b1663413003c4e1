"""Method `fedper`: all UEs share a body, each has a head of its own (FedPer, Arivazhagan et al., 2019)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpfl import part
from hpfl.learning import Local, LocalTraining, ParameterSpec, UeCalculus
from hpfl.options import Options, option


class FedPerOptions(Options):
    """Options of method `fedper`."""

    head: int = option(2, "tensors at the model's end that stay with the UE (a layer has a weight and a bias)", ge=1)


@part(options=FedPerOptions)
class FedPer:
    """Gradient steps on the whole model; the head never leaves the UE."""

    def __init__(self, *, options: FedPerOptions) -> None:
        self.tensors = options.head

    def travels(self, spec: ParameterSpec) -> Tensor:
        """The body."""
        mask = torch.ones(spec.num_parameters, dtype=torch.bool)
        mask[spec.num_parameters - self.numbers_kept(spec) :] = False
        return mask

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The head's numbers."""
        return sum(spec.sizes[-self.tensors :])

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The head of the model that all begin with."""
        return params[params.numel() - self.numbers_kept(spec) :]

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """Gradient steps on body and head together."""
        start = point = self._own(params, kept)
        losses = []
        for step in steps:
            found = step.gradient(point, "support")
            losses.append(found.loss)
            point = point - training.outer_lr * found.direction
        head = point[point.numel() - kept.numel() :]
        return Local((start - point) / training.outer_lr, head, losses[0], losses[0])

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The shared body with the UE's own head."""
        return self._own(params, kept)

    def _own(self, params: Tensor, kept: Tensor) -> Tensor:
        return torch.cat([params[: params.numel() - kept.numel()], kept])
