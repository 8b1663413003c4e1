"""Dense layers behind convolutions, where UEs come one at a time on a CPU: large weights are multiplied by oneDNN.

Few rows meet many weights there. oneDNN's kernels fill the vectors of any processor; those of the BLAS that `bmm`
calls fill half of some.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.own.layers import Into, OwnDense, Params

_LEAST = 65_536  # numbers of a weight; below, oneDNN's call costs more than the product
_APART = 1024  # numbers: where rows lie so far apart, or multiples of it, a BLAS adds to them slowly


@dataclass(frozen=True)
class LoneDense(OwnDense):
    """A `torch.nn.Linear` over rows [u, n, in], UE by UE."""

    def forward(self, rows: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """`x W^T + b`."""
        weight = params[f"{self.name}.weight"]
        if not _suits(weight, rows):
            return super().forward(rows, params)
        bias = params[f"{self.name}.bias"] if self.has_bias else [None] * len(rows)
        return _stacked([_product(*own) for own in zip(rows, weight, bias, strict=True)]), rows

    def back(self, errors: Tensor, kept: Tensor, params: Params) -> Tensor:
        """`E W`."""
        weight = params[f"{self.name}.weight"]
        if not _suits(weight, errors):
            return super().back(errors, kept, params)
        return _stacked([_product(own, each.T) for own, each in zip(errors, weight, strict=True)])

    def gradient(self, errors: Tensor, kept: Tensor, into: Into) -> None:
        """`E^T x`."""
        name = f"{self.name}.weight"
        if name not in into.moving or kept.shape[2] % _APART or not _suits(into.params[name], errors, kept):
            super().gradient(errors, kept, into)
            return
        into.adds(name, _stacked([_product(own.T, rows.T) for own, rows in zip(errors, kept, strict=True)]))
        if self.has_bias:
            into.adds(f"{self.name}.bias", errors.sum(1))


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`rows weight^T + bias` by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found


def _suits(weight: Tensor, *rows: Tensor) -> bool:
    """Whether there are such kernels for a large weight; numbers that do not lie side by side take them far longer."""
    large = weight.shape[1] * weight.shape[2] >= _LEAST and weight.device.type == "cpu"
    plain = all(own.dtype == torch.float32 and own.stride()[1:] == (own.shape[2], 1) for own in (weight, *rows))
    return large and plain and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _stacked(each: list[Tensor]) -> Tensor:
    return each[0].unsqueeze(0) if len(each) == 1 else torch.stack(each)
