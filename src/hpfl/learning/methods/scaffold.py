"""SCAFFOLD: control variates correct the drift of local steps, `y_i <- y_i - eta (grad f_i(y_i) - c_i + c)`.

Then `c_i+ = c_i - c + (x - y_i) / (K eta)` (option II) or the gradient at `x` on the samples of the steps (option I),
and the cloud takes `x <- x + mean(y_i - x)`, `c <- c + (|S| / N) mean(c_i+ - c_i)` over the UEs `S` that were heard of
`N` (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: *SCAFFOLD: Stochastic Controlled Averaging for Federated Learning*,
ICML 2020, Algorithm 1, with a global step of 1). `c` travels beside the model, both ways: twice the bits. A UE whose
edge holds an older model holds the `c` of that round. A UE keeps `c_i`; it is evaluated as FedAvg's are, after the
evaluation's inner steps.

What is shared is `eta c`, so that its update is of the size of a gradient.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hpfl.learning.local_descent import Descent, direction, num_taken
from hpfl.learning.method import METHODS, BaseMethod, Local, UeCalculus
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.own.at_once import AtOnce
from hpfl.learning.own.chunk import Pace
from hpfl.learning.task import ParameterSpec

CONTROL = "scaffold_control"


class _ControlOptions(Protocol):
    @property
    def control(self) -> str: ...


@METHODS.register(
    "scaffold",
    options="hpfl.learning.methods.method_options:ScaffoldOptions",
    reads=(),
    epochs=True,
    counts_ues=True,
)
class Scaffold(BaseMethod):
    """FedAvg whose local steps are corrected by control variates, which travel beside the model."""

    roles: Sequence[Role] = ("support",)

    def __init__(self, *, options: _ControlOptions) -> None:
        self.options = options

    def beside(self, spec: ParameterSpec) -> Mapping[str, tuple[int, ...]]:
        """The control variate of all, a number for each of the model's."""
        return {CONTROL: (spec.num_parameters,)}

    def counted(self, spec: ParameterSpec) -> slice:
        """Where updates count by the share of the UEs that were heard: in the control variate."""
        return spec.places[CONTROL]

    def numbers_kept(self, spec: ParameterSpec) -> int:
        """The UE's own control variate."""
        return spec.sizes[spec.names.index(CONTROL)]

    def first_kept(self, params: Tensor, spec: ParameterSpec) -> Tensor:
        """Zero."""
        return torch.zeros_like(params[: self.numbers_kept(spec)])

    def local(self, steps: Sequence[UeCalculus], params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
        """Corrected steps, and what they say of the UE's own drift."""
        rate, count = training.outer_lr, len(kept)
        model, held = params[:count], params[count:]
        shared, taken = held / rate, num_taken(steps, params)
        drift = torch.cat([shared - kept, torch.zeros_like(held)])
        end, first = Descent(rate, drift=drift).walk(steps, params)
        local = end[:count]
        if self.options.control == "difference":
            control = kept - shared + (model - local) / (taken * rate)
        else:
            control = self._gradient(steps, params)[:count] / taken
        told = torch.cat([direction(model, local, training), kept - control])
        return Local(told, control, first, first)

    def at_once(self, ues: AtOnce, training: LocalTraining) -> tuple[Tensor, Tensor]:
        """The same of many UEs."""
        spec, rate = ues.chunk.spec, training.outer_lr
        place = spec.places[CONTROL]
        held = ues.start[:, place] if ues.start.stride(0) else ues.start[:1, place].expand(len(ues.start), -1)
        kept, shared = ues.seen(ues.kept, ues.names), ues.seen(held, ues.names)
        taken = torch.from_numpy(np.count_nonzero(ues.chunk.counts[list(ues.numbers)], axis=0)).to(ues.start)
        came, point, control = ues.came, ues.model("model"), ues.empty("control")
        for name, own in control.items():
            torch.sub(kept[name], shared[name], alpha=1 / rate, out=own)
        slopes = None if self.options.control == "difference" else ues.gradients(point, "slopes")
        first = ues.walk(Pace(rate, 0.0, 0.0, 0.0, ues.chunk.network.names), point, control)
        for name, place_of in zip(ues.names, ues.within(place), strict=True):
            wide = (-1,) + (1,) * (point[name].ndim - 1)
            torch.sub(came[name], point[name], out=point[name])
            ues.sums.add(point[name].flatten(1), spec.places[name], 1 / rate)
            if slopes is None:
                over = (taken * rate).view(wide)
                control[name].addcdiv_(point[name], over)
                told, scale = torch.addcdiv(shared[name], point[name], over, value=-rate, out=point[name]), 1 / rate
            else:
                torch.div(slopes[name], taken.view(wide), out=control[name])
                told, scale = torch.sub(kept[name], control[name], out=point[name]), 1.0
            ues.sums.add(told.flatten(1), place_of, scale)
        ues.keep(control)
        return first, first

    def _gradient(self, steps: Sequence[UeCalculus], params: Tensor) -> Tensor:
        """The sum of the gradients at the model that came; those of steps that are not active are zero."""
        return torch.stack([step.gradient(params).direction for step in steps]).sum(0)
