"""The convolution: base weights in one call for all UEs; per-UE weights UE by UE on a CPU, as patches on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
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

    def patches(self, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Patches [u, n, channels * window, places] of rows, a strided copy."""
        padded = F.pad(rows, (self.padding[1],) * 2 + (self.padding[0],) * 2) if any(self.padding) else rows
        windows = padded.unfold(3, shape[2], self.stride[0]).unfold(4, shape[3], self.stride[1])
        return windows.permute(0, 1, 2, 5, 6, 3, 4).flatten(5, 6).flatten(2, 4)

    def unpatched(self, patches: Tensor, errors: Tensor, rows: Tensor) -> Tensor:
        """Patches [u, n, channels, window, places] added up where they came from; one sum per place of the window."""
        (height, width), (down, right) = errors.shape[3:], self.stride
        top, left = self.padding
        sums = rows.new_zeros(*rows.shape[:3], rows.shape[3] + 2 * top, rows.shape[4] + 2 * left)
        for i in range(patches.shape[3]):
            for j in range(patches.shape[4]):
                part = sums[..., i : i + down * height : down, j : j + right * width : right]
                part += patches[:, :, :, i, j].reshape(*rows.shape[:3], height, width)
        return sums[..., top : top + rows.shape[3], left : left + rows.shape[4]].contiguous()

    def output_size(self, rows: Tensor, shape: tuple[int, ...]) -> Pair:
        """Height and width of the outputs, without dilation."""
        sizes = zip(rows.shape[3:], shape[2:], self.padding, self.stride, strict=True)
        height, width = ((size + 2 * pad - window) // stride + 1 for size, window, pad, stride in sizes)
        return height, width

    def back(self, errors: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Errors at the rows: on a GPU as a convolution by turned weights, faster than cuDNN's own way back."""
        reach = [d * (k - 1) - p for d, k, p in zip(self.dilation, weight.shape[2:], self.padding, strict=True)]
        if not rows.is_cuda or self.stride != (1, 1) or self.groups != 1 or min(reach) < 0:
            return self.gradients(errors, rows, weight, "rows")
        turned = weight.flip(2, 3).transpose(0, 1)
        return F.conv2d(errors, turned, None, 1, (reach[0], reach[1]), self.dilation)

    def gradients(self, errors: Tensor, rows: Tensor, weight: Tensor, wanted: str) -> Tensor:
        """Errors at the "rows", or the gradient by the "weight"."""
        kind = torch.promote_types(
            torch.promote_types(errors.dtype, rows.dtype), weight.dtype
        )  # products may be rounded
        errors, rows, weight = errors.to(kind), rows.to(kind), weight.to(kind)
        mask = [wanted == "rows", wanted == "weight", False]
        window: tuple[Any, ...] = (self.stride, self.padding, self.dilation, False, [0, 0], self.groups)
        results = torch.ops.aten.convolution_backward(errors, rows, weight, None, *window, mask)
        result: Tensor = results[0] if wanted == "rows" else results[1]
        return result


class Recent:
    """The patches of the last two tensors of rows, held with their rows so that identities stay true."""

    def __init__(self) -> None:
        self._held: list[tuple[Tensor, Tensor]] = []

    def of(self, rows: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """The patches of rows, made anew if they are not among the last."""
        for place, (own, patches) in enumerate(self._held):
            if own is rows:
                self._held.append(self._held.pop(place))
                return patches
        self._held = [*self._held[-1:], (rows, make())]
        return self._held[-1][1]


@dataclass(frozen=True)
class Convolution:
    """A `torch.nn.Conv2d` over rows [u, n, channels, height, width]."""

    name: str
    outer_shape: tuple[int, ...]
    has_bias: bool
    geometry: Geometry
    recent: Recent | None = None  # patches made last, on a GPU
    always_patches: bool = False

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
        return _unflatten(self.geometry.back(errors.flatten(0, 1), rows.flatten(0, 1), weights.weight), rows)

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
            per_sample = term.right.flatten(3) @ self._patches(term.left).mT
            return per_sample.sum(1).view(len(term.left), *self.outer_shape)
        weight: Tensor = term.left.new_empty(len(term.left), *self.outer_shape)
        for ue, (rows, errors) in enumerate(zip(term.left, term.right, strict=True)):
            weight[ue] = self.geometry.gradients(errors, rows, weight[ue], "weight")
        return weight

    def outer_run(self, left: Tensor, right: Tensor, into: Tensor) -> None:
        """Add the gradient by weights that all UEs share."""
        into += self.geometry.gradients(right.flatten(0, 1), left.flatten(0, 1), into, "weight")

    def _each(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outputs with weights [u, ...] and bias [u, out] (or [out]) of each UE's own."""
        own = None if bias is None else bias.expand(len(rows), -1)
        if self._by_patches(rows):
            result: Tensor = weight.flatten(2).unsqueeze(1) @ self._patches(rows)
            result = result if own is None else result.add_(own[:, None, :, None])
            return result.view(*result.shape[:3], *self.geometry.output_size(rows, self.outer_shape))
        pairs = zip(rows, weight, own if own is not None else [None] * len(rows), strict=True)
        return torch.stack([self.geometry.outputs(r, w, b) for r, w, b in pairs])

    def _each_back(self, errors: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
        """Errors at the inputs with weights [u, ...] of each UE's own."""
        if self._by_patches(rows):
            patches = weight.flatten(2).mT.unsqueeze(1) @ errors.flatten(3)
            return self.geometry.unpatched(patches.view(*patches.shape[:2], *self.outer_shape[1:], -1), errors, rows)
        triples = zip(errors, rows, weight, strict=True)
        return torch.stack([self.geometry.gradients(e, r, w, "rows") for e, r, w in triples])

    def _by_patches(self, rows: Tensor) -> bool:
        """Products of patches suit a GPU; a CPU runs its own convolutions faster one UE at a time."""
        g = self.geometry
        return (rows.is_cuda or self.always_patches) and g.groups == 1 and g.dilation == (1, 1)

    def _patches(self, rows: Tensor) -> Tensor:
        """Patches [u, n, channels * window, places] of rows; the last ones are kept, since most are asked for again."""
        if self.recent is None:
            return self.geometry.patches(rows, self.outer_shape)
        return self.recent.of(rows, lambda: self.geometry.patches(rows, self.outer_shape))


def _unflatten(flat: Tensor, like: Tensor) -> Tensor:
    return flat.view(*like.shape[:2], *flat.shape[1:])
