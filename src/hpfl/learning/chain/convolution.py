"""The convolution: base weights in one call for all UEs; per-UE weights UE by UE on a CPU, as patches on a GPU."""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from torch import Tensor

from hpfl.learning.chain.delta import Delta, Term
from hpfl.learning.chain.weighted import Weights, formed

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """Stride, padding, dilation and groups of a two-dimensional convolution."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int

    def outputs(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outputs of images [m, channels, height, width]."""
        return F.conv2d(rows, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def gradients(self, errors: Tensor, rows: Tensor, weight: Tensor, wanted: str) -> Tensor:
        """Errors at the "rows", or the gradient by the "weight"."""
        mask = [wanted == "rows", wanted == "weight", False]
        window: tuple[Any, ...] = (self.stride, self.padding, self.dilation, False, [0, 0], self.groups)
        results = torch.ops.aten.convolution_backward(errors, rows, weight, None, *window, mask)
        result: Tensor = results[0] if wanted == "rows" else results[1]
        return result


@dataclass(frozen=True)
class Convolution:
    """A `torch.nn.Conv2d` over rows [u, n, channels, height, width]."""

    name: str
    outer_shape: tuple[int, ...]
    has_bias: bool
    geometry: Geometry

    def forward(self, rows: Tensor, weights: Weights, *, bias: bool = True) -> Tensor:
        """Outputs at the base weights."""
        own = weights.bias if bias else None
        if weights.per_ue:
            return self._each(rows, weights.weight, own)
        return _unflatten(self.geometry.outputs(rows.flatten(0, 1), weights.weight, own), rows)

    def backward(self, errors: Tensor, weights: Weights, rows: Tensor) -> Tensor:
        """Errors at the inputs through the base weights."""
        if weights.per_ue:
            return self._each_back(errors, weights.weight, rows)
        flat = self.geometry.gradients(errors.flatten(0, 1), rows.flatten(0, 1), weights.weight, "rows")
        return _unflatten(flat, rows)

    def moved(self, rows: Tensor, weights: Weights, delta: Delta, *, bias: bool = True) -> Tensor:
        """Outputs at base weights plus delta."""
        weight, own = formed(self, delta)
        both = weights.bias + own if bias and weights.bias is not None and own is not None else None
        return self._each(rows, weights.weight + weight, both)

    def along(self, rows: Tensor, delta: Delta, onto: Tensor | None) -> Tensor:
        """`onto` plus outputs by the delta alone, its bias included."""
        weight, own = formed(self, delta)
        result = self._each(rows, weight, own if self.has_bias else None)
        return result if onto is None else result.add_(onto)

    def back_moved(self, errors: Tensor, weights: Weights, delta: Delta, rows: Tensor) -> Tensor:
        """Errors at the inputs through base weights plus delta."""
        return self._each_back(errors, weights.weight + formed(self, delta)[0], rows)

    def back_along(self, errors: Tensor, delta: Delta, onto: Tensor) -> Tensor:
        """`onto` plus the errors at the inputs through the delta alone."""
        return self._each_back(errors, formed(self, delta)[0], onto).add_(onto)

    def outer(self, term: Term) -> Tensor:
        """The gradient by each UE's weights."""
        if self._by_patches(term.left):
            return self._patch_outer(term)
        weight = term.left.new_empty(len(term.left), *self.outer_shape)
        for ue, (rows, errors) in enumerate(zip(term.left, term.right, strict=True)):
            weight[ue] = self.geometry.gradients(errors, rows, weight[ue], "weight")
        return weight

    def outer_run(self, left: Tensor, right: Tensor, into: Tensor) -> None:
        """Add the gradient by weights that all UEs share."""
        into += self.geometry.gradients(right.flatten(0, 1), left.flatten(0, 1), into, "weight")

    def _by_patches(self, rows: Tensor) -> bool:
        return rows.is_cuda and self.geometry.groups == 1

    def _each(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outputs with weights [u, ...] and bias [u, out] (or [out]) of each UE's own."""
        own = None if bias is None else bias.expand(len(rows), -1)
        if self._by_patches(rows):
            return self._patch_each(rows, weight, own)
        pairs = zip(rows, weight, own if own is not None else [None] * len(rows), strict=True)
        return torch.stack([self.geometry.outputs(r, w, b) for r, w, b in pairs])

    def _each_back(self, errors: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
        if self._by_patches(rows):
            return self._patch_back(errors, weight, rows)
        triples = zip(errors, rows, weight, strict=True)
        return torch.stack([self.geometry.gradients(e, r, w, "rows") for e, r, w in triples])

    def _patches(self, rows: Tensor) -> Tensor:
        """Patches [u, n, channels * window, places] of rows."""
        g = self.geometry
        flat = F.unfold(rows.flatten(0, 1), self.outer_shape[2:], g.dilation, g.padding, g.stride)
        return _unflatten(flat, rows)

    def _patch_each(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = weight.flatten(2).unsqueeze(1) @ self._patches(rows)
        if bias is not None:
            result += bias[:, None, :, None]
        return result.view(*result.shape[:3], *self._output_size(rows))

    def _patch_back(self, errors: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
        g = self.geometry
        patches = weight.flatten(2).mT.unsqueeze(1) @ errors.flatten(3)
        size = (rows.shape[3], rows.shape[4])
        flat = F.fold(patches.flatten(0, 1), size, self.outer_shape[2:], g.dilation, g.padding, g.stride)
        return _unflatten(flat, rows)

    def _patch_outer(self, term: Term) -> Tensor:
        places = prod(term.right.shape[3:])
        errors = term.right.reshape(len(term.right), term.right.shape[1], -1, places)
        per_sample = errors @ self._patches(term.left).mT
        return per_sample.sum(1).view(len(term.left), *self.outer_shape)

    def _output_size(self, rows: Tensor) -> Pair:
        g = self.geometry

        def size(axis: int) -> int:
            reach = g.dilation[axis] * (self.outer_shape[2 + axis] - 1) + 1
            return int((rows.shape[3 + axis] + 2 * g.padding[axis] - reach) // g.stride[axis] + 1)

        return size(0), size(1)


def _unflatten(flat: Tensor, like: Tensor) -> Tensor:
    return flat.view(*like.shape[:2], *flat.shape[1:])
