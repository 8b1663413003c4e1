"""Convolutions with weights of each UE's own, over images whose channels lie side by side in memory.

Images are [u, n, channels, height, width]. With channels last, pooling is several times faster on a CPU, and a
convolution is one batched product over patches on a GPU. On a CPU weights lie likewise, so that they are not laid anew
in every call.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from torch import Tensor

from hpfl.learning.chain.convolution import Geometry
from hpfl.learning.own.layers import Into, Params


@dataclass(frozen=True)
class OwnConvolution:
    """A `torch.nn.Conv2d`: UE by UE on a CPU, whose libraries split the work; as products of patches on a GPU."""

    name: str
    shape: tuple[int, ...]
    has_bias: bool
    geometry: Geometry

    @property
    def names(self) -> tuple[str, ...]:
        """Of weight and bias."""
        return (f"{self.name}.weight", f"{self.name}.bias") if self.has_bias else (f"{self.name}.weight",)

    def forward(self, rows: Tensor, params: Params) -> tuple[Tensor, tuple[Tensor, Tensor | None]]:
        """Outputs, channels last."""
        rows = channels_last(rows)
        if self._by_patches(rows):
            return self._patched(rows, params)
        weight = params[f"{self.name}.weight"]
        bias = params[f"{self.name}.bias"] if self.has_bias else [None] * len(rows)
        each = [self.geometry.outputs(*own) for own in zip(rows, weight, bias, strict=True)]
        return _stacked(each), (rows, None)

    def back(self, errors: Tensor, kept: tuple[Tensor, Tensor | None], params: Params) -> Tensor:
        """Errors at the inputs."""
        rows, patches = kept
        weight = params[f"{self.name}.weight"]
        if patches is not None:
            return self._unpatched(errors, rows, weight)
        triples = zip(channels_last(errors), rows, weight, strict=True)
        return _stacked([self.geometry.gradients(*own, "rows") for own in triples])

    def gradient(self, errors: Tensor, kept: tuple[Tensor, Tensor | None], into: Into) -> None:
        """By weight and bias."""
        rows, patches = kept
        errors, name = channels_last(errors), f"{self.name}.weight"
        flat = errors.permute(0, 1, 3, 4, 2).flatten(1, 3)  # [u, n * places, out]
        if self.has_bias:
            into.adds(f"{self.name}.bias", flat.sum(1))
        if patches is not None:
            into.adds_product(name, flat.mT, patches)
        elif name in into.moving:
            pairs = zip(errors, rows, into.params[name], strict=True)
            into.adds(name, _stacked([self.geometry.gradients(*own, "weight") for own in pairs]))

    def _by_patches(self, rows: Tensor) -> bool:
        return rows.is_cuda and self.geometry.groups == 1 and self.geometry.dilation == (1, 1)

    def _patched(self, rows: Tensor, params: Params) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs as one product per UE over all of its patches."""
        (down, right), (top, left) = self.geometry.stride, self.geometry.padding
        padded = F.pad(rows, (left, left, top, top)) if top or left else rows
        windows = padded.unfold(3, self.shape[2], down).unfold(4, self.shape[3], right)
        patches = windows.permute(0, 1, 3, 4, 2, 5, 6).reshape(
            len(rows), -1, self.shape[1] * self.shape[2] * self.shape[3]
        )
        weight = params[f"{self.name}.weight"].flatten(2).mT
        if self.has_bias:
            flat = torch.baddbmm(params[f"{self.name}.bias"].unsqueeze(1), patches, weight)
        else:
            flat = torch.bmm(patches, weight)
        outputs = flat.view(*rows.shape[:2], windows.shape[3], windows.shape[4], self.shape[0])
        return outputs.permute(0, 1, 4, 2, 3), (rows, patches)

    def _unpatched(self, errors: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Errors of all patches, added up where these came from."""
        flat = channels_last(errors).permute(0, 1, 3, 4, 2).flatten(1, 3)
        patches = torch.bmm(weight.flatten(2).mT, flat.mT)  # [u, channels * window, n * places]
        per_image = patches.view(*patches.shape[:2], rows.shape[1], -1).transpose(1, 2).flatten(0, 1)
        size, window = (rows.shape[3], rows.shape[4]), (self.shape[2], self.shape[3])
        sums = F.fold(per_image, size, window, padding=self.geometry.padding, stride=self.geometry.stride)
        return sums.view(rows.shape)


def channels_last(rows: Tensor) -> Tensor:
    """The same images [u, n, c, h, w], whose channels lie side by side."""
    _, count, channels, tall, wide = rows.shape
    if channels == 1:  # either way is the same, and libraries would not see the one that is meant
        return rows.contiguous().as_strided(rows.shape, (count * tall * wide, tall * wide, 1, wide, 1))
    flat = rows.reshape(-1, channels, tall, wide).contiguous(memory_format=torch.channels_last)
    return flat.view(rows.shape)


def _stacked(each: list[Tensor]) -> Tensor:
    return each[0].unsqueeze(0) if len(each) == 1 else torch.stack(each)
