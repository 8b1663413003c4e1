"""Methods as a user would write them: a private head (FedPer), a private model beside the shared one (Ditto)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning import BaseMethod, Local, LocalTraining, ParameterSpec, UeCalculus, descended, with_entries


@dataclass(frozen=True)
class FedPer(BaseMethod):
    """UEs keep the parameters whose names begin with `head` (Arivazhagan et al., 2019)."""

    head: str

    def numbers_kept(self, spec: ParameterSpec) -> int:
        return len(spec.entries(self.head))

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        return params[spec.entries(self.head)]

    def travels(self, spec: ParameterSpec) -> Tensor:
        mask = torch.ones(spec.num_parameters, dtype=torch.bool)
        mask[spec.entries(self.head)] = False
        return mask

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        head = steps[0].spec.entries(self.head)
        total, end, losses = descended(steps, with_entries(params, head, kept), training)
        return Local(total, end[head], *losses)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        return with_entries(params, ue.spec.entries(self.head), kept)


@dataclass(frozen=True)
class Ditto(BaseMethod):
    """UEs keep a model of their own, drawn to the shared one by a spring (Li et al., 2021)."""

    spring: float
    rate: float

    def numbers_kept(self, spec: ParameterSpec) -> int:
        return spec.num_parameters

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        return params

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        total, _, (loss, _) = descended(steps, params, training)
        meta_loss = steps[0].loss(kept)
        for step in steps:
            pull = step.gradient(kept, "query").direction + self.spring * (kept - params)
            kept = kept - self.rate * pull
        return Local(total, kept, loss, meta_loss)

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        return kept
