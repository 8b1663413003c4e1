"""APFL: a mixture of a private model and the UE's copy of the shared one, `m_i = alpha_i v_i + (1 - alpha_i) w_i`.

In each local step `w_i <- w_i - eta grad f_i(w_i)` and `v_i <- v_i - eta alpha_i grad f_i(m_i)`, the derivative by
`v_i`; once a round, in its first step, `alpha_i <- alpha_i - eta <v_i - w_i, grad f_i(m_i)>`, held between 0 and 1
(Deng, Kamani, Mahdavi: *Adaptive Personalized Federated Learning*, arXiv:2003.13461, 2020, Algorithm 1 and its adaptive
`alpha`; once a round as the authors' FedTorch does). A UE keeps `v_i`, `w_i` and `alpha_i`; `w_i` travels; `m_i` is
evaluated.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.local_descent import direction
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.own_calculus import mixture, together
from hpfl.learning.own.pairs import Mixing, mix
from hpfl.learning.task import ParameterSpec


class _MixtureOptions(Protocol):
    @property
    def alpha(self) -> float: ...
    @property
    def adaptive(self) -> bool: ...


@METHODS.register("apfl", options="hpfl.learning.methods.method_options:ApflOptions", reads=(), epochs=True)
class Apfl(BaseMethod):
    """A mixture of a private model and a copy of the shared one, whose shares are learnt."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: _MixtureOptions) -> None:
        self.options = options

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """Private model, copy of the shared one, share of the private one."""
        return 2 * spec.num_parameters + 1

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """Twice the model that all begin with, and the first share."""
        return torch.cat([params, params, params.new_full((1,), self.options.alpha)])

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """Steps of both models, and of the share in the first of them."""
        rate, count = training.outer_lr, len(params)
        if together(steps):
            how, before = Mixing(rate, self.options.adaptive), (kept[:count], params)
            private, copy, share, *losses = mixture(how, steps, before, kept[2 * count])
            return Local(direction(params, copy, training), torch.cat([private, copy, share.reshape(1)]), *losses)
        private, copy, share, first = kept[:count], params, kept[2 * count], None
        for step in steps:
            own = step.gradient(copy)
            mixed = step.gradient(_mixture(private, copy, share))
            if first is None:
                first, used = (own.loss, mixed.loss), share
                if self.options.adaptive:
                    share = (share - rate * ((private - copy) * mixed.direction).sum()).clamp(0.0, 1.0)
            else:
                used = share
            private = torch.where(step.active, private - rate * used * mixed.direction, private)
            copy = torch.where(step.active, copy - rate * own.direction, copy)
        assert first is not None
        return Local(direction(params, copy, training), torch.cat([private, copy, share.reshape(1)]), *first)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        count, how = ues.chunk.spec.num_parameters, Mixing(training.outer_lr, self.options.adaptive)
        copy, private = ues.model("copy"), ues.model("private", own=ues.names)
        models = (copy, private, ues.empty("mixture"), ues.empty("slopes"))
        share, *losses = mix(ues.chunk, how, ues.numbers, models, ues.kept[:, 2 * count])
        ues.keep(private)
        ues.keep(copy, first=count)
        ues.now[:, 2 * count] = share
        ues.send(copy)
        return losses[0], losses[1]

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The mixture."""
        count = len(params)
        return _mixture(kept[:count], kept[count : 2 * count], kept[2 * count])


def _mixture(private: Tensor, copy: Tensor, share: Tensor) -> Tensor:
    return share * private + (1 - share) * copy
