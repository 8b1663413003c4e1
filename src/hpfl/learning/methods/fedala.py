"""FedALA: a UE starts from its own model and the shared one, mixed by weights that it learns.

`s_i = p_i + (w - p_i) * W_i` in the upper layers and `s_i = w` below them; `W_i <- clip(W_i - eta (w - p_i) grad
f_i(s_i), 0, 1)`; then `p_i` is SGD from `s_i`, and travels (Zhang, Hua, Wang, Song, Xue, Ma, Guan: *FedALA: Adaptive
Local Aggregation for Personalized Federated Learning*, AAAI 2023, eq. 4 to 6, Algorithm 1). Weights begin at one. When
they are first learnt the paper goes on until the loss stands still, here for `first_passes` passes; later for one. It
learns them on a random part of a UE's samples, here on those of its local steps. A UE keeps `p_i` and `W_i`; the model
travels; `s_i` is evaluated.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpfl.learning.heads import in_head
from hpfl.learning.local_descent import Descent, Moves, direction
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus, with_entries
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.mixing import Learning, learn
from hpfl.learning.own.own_calculus import learnt as learnt_weights
from hpfl.learning.own.own_calculus import together
from hpfl.learning.task import ParameterSpec


@METHODS.register("fedala", options="hpfl.learning.methods.method_options:FedAlaOptions", reads=(), epochs=True)
class FedAla(BaseMethod):
    """Each UE starts from a mixture of its own model and the shared one, by weights that it learns."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: Any) -> None:
        self.options = options

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The UE's own model, a weight for each parameter of the upper layers, and whether these were learnt before."""
        return spec.num_parameters + len(self._upper(spec)) + 1

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """The model that all begin with, weights of one, and no."""
        return torch.cat([params, params.new_ones(len(self._upper(spec))), params.new_zeros(1)])

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """The weights, then SGD from the mixture."""
        upper = self._upper(steps[0].spec).to(params.device)
        mine, weights, learnt = kept[: len(params)], kept[len(params) : -1], kept[-1]
        mixture = _Mixture(params, mine, upper)
        if together(steps):
            own, spec = self.options, steps[0].spec
            names = tuple(name for name in spec.names if name in Moves.of(spec, self._above(spec)).names)
            how = Learning(names, own.weight_lr, own.first_passes)
            weights = learnt_weights(how, steps, (params, mine), (weights, learnt))
        else:
            weights = self._weights(steps, mixture, weights, learnt)
        end, loss = Descent.by(self.options, training.outer_lr).walk(steps, mixture.at(weights))
        learnt = torch.where((mixture.far != 0).any(), torch.ones_like(learnt), learnt)
        return Local(direction(params, end, training), torch.cat([end, weights, learnt.reshape(1)]), loss, loss)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        spec, own, learnt = ues.chunk.spec, self.options, ues.kept[:, -1]
        names = tuple(name for name in ues.names if name in Moves.of(spec, self._above(spec)).names)
        came, mine, point = ues.came, ues.empty("mine", names), ues.model("model")
        chunk = ues.chunk.above(frozenset(names), came)
        mixed = {name: part for name, part in point.items() if name in chunk.network.names}
        far, slopes, weights = ues.empty("far", names), ues.empty("slopes", names), ues.empty("weights", names)
        kept, begun = ues.seen(ues.kept, ues.names), ues.seen(ues.kept, names, spec.num_parameters)
        for name in names:
            mine[name].copy_(kept[name])
            torch.sub(came[name], mine[name], out=far[name])
            weights[name].copy_(begun[name])
        how = Learning(names, own.weight_lr, own.first_passes)
        learn(chunk, how, ues.numbers, (mixed, mine, far, slopes, weights), learnt == 0)
        for name in names:
            torch.addcmul(mine[name], far[name], weights[name], out=point[name])
        loss = Descent.by(own, training.outer_lr).at_once(ues, point)
        ues.keep(point)
        ues.keep(weights, names, spec.num_parameters)
        apart = torch.stack([part.flatten(1).any(1) for part in far.values()]).any(0)
        ues.now[:, -1] = torch.where(apart, torch.ones_like(learnt), learnt)
        ues.send(point)
        return loss, loss

    def personal(self, ue: UeCalculus, params: Tensor, kept: Tensor, training: LocalTraining) -> Tensor:
        """The mixture of the UE's own model and the shared one."""
        upper = self._upper(ue.spec).to(params.device)
        return _Mixture(params, kept[: len(params)], upper).at(kept[len(params) : -1])

    def _upper(self, spec: ParameterSpec) -> Tensor:
        """Places of the upper layers' parameters."""
        return self._above(spec).nonzero()[:, 0]

    def _above(self, spec: ParameterSpec) -> Tensor:
        """The same, bool [P]."""
        return in_head(spec, self.options.layers, key="layers", may_be_all=True)

    def _weights(self, steps: Sequence[UeCalculus], mixture: "_Mixture", weights: Tensor, learnt: Tensor) -> Tensor:
        """The weights after one pass over the steps, or several where they are learnt for the first time."""
        for number in range(self.options.first_passes):
            for step in steps:
                slope = mixture.far * step.gradient(mixture.at(weights)).direction[mixture.upper]
                moved = (weights - self.options.weight_lr * slope).clamp(0.0, 1.0)
                weights = torch.where(step.active & ((learnt == 0) | (number == 0)), moved, weights)
        return weights


class _Mixture:
    """The shared model with, in its upper layers, the UE's own moved towards it by weights."""

    def __init__(self, params: Tensor, mine: Tensor, upper: Tensor) -> None:
        self.params, self.upper, self.own = params, upper, mine[upper]
        self.far = params[upper] - self.own

    def at(self, weights: Tensor) -> Tensor:
        """The mixture by some weights."""
        return with_entries(self.params, self.upper, self.own + self.far * weights)
