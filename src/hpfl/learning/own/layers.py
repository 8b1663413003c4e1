"""Layers with weights of each UE's own, forward and back: batched products over rows [u, n, ...]."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Params = dict[str, Tensor]
"""Parameters by name, [u, *shape] each."""

aten = torch.ops.aten


@dataclass(frozen=True)
class Into:
    """Where gradients go: `into = beta into + alpha gradient`, of the parameters named."""

    params: Params
    moving: frozenset[str]
    beta: float = 0.0
    alpha: float = 1.0

    def adds(self, name: str, gradient: Tensor) -> None:
        """Add a gradient that is at hand."""
        if name in self.moving:
            own = self.params[name]
            if self.beta == 0.0:
                torch.mul(gradient.view_as(own), self.alpha, out=own)
            else:
                (own if self.beta == 1.0 else own.mul_(self.beta)).add_(gradient.view_as(own), alpha=self.alpha)

    def adds_product(self, name: str, left: Tensor, right: Tensor) -> None:
        """Add `left @ right`, [u, rows, columns], which need not be formed."""
        if name in self.moving:
            own = self.params[name].flatten(2)
            if self.beta == 0.0 and self.alpha == 1.0:
                torch.bmm(left, right, out=own)
            else:
                own.baddbmm_(left, right, beta=self.beta, alpha=self.alpha)


class OwnLayer(Protocol):
    """A layer with weights of each UE's own."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its parameters."""

    def forward(self, rows: Tensor, params: Params) -> tuple[Tensor, Any]:
        """Outputs, and what derivatives need."""

    def back(self, errors: Tensor, kept: Any, params: Params) -> Tensor:
        """Errors at the inputs from those at the outputs."""

    def gradient(self, errors: Tensor, kept: Any, into: Into) -> None:
        """Add the gradient by the parameters."""


@dataclass(frozen=True)
class OwnDense:
    """A `torch.nn.Linear` over rows [u, n, in]."""

    name: str
    has_bias: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of weight and bias."""
        return (f"{self.name}.weight", f"{self.name}.bias") if self.has_bias else (f"{self.name}.weight",)

    def forward(self, rows: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """`x W^T + b`."""
        weight = params[f"{self.name}.weight"].mT
        if len(rows) > 1 and weight.stride(0) == 0 and self.has_bias:  # the same for all: one product
            shared = torch.addmm(params[f"{self.name}.bias"][0], rows.flatten(0, 1), weight[0])
            return shared.view(*rows.shape[:2], -1), rows
        if not self.has_bias:
            return torch.bmm(rows, weight), rows
        return torch.baddbmm(params[f"{self.name}.bias"].unsqueeze(1), rows, weight), rows

    def back(self, errors: Tensor, kept: Tensor, params: Params) -> Tensor:
        """`E W`."""
        return torch.bmm(errors, params[f"{self.name}.weight"])

    def gradient(self, errors: Tensor, kept: Tensor, into: Into) -> None:
        """`E^T x`."""
        into.adds_product(f"{self.name}.weight", errors.mT, kept)
        if self.has_bias:
            into.adds(f"{self.name}.bias", errors.sum(1))


@dataclass(frozen=True)
class OwnNorm:
    """A `torch.nn.GroupNorm`, whose scale and shift are each UE's own."""

    name: str
    groups: int
    eps: float
    affine: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of scale and shift."""
        return (f"{self.name}.weight", f"{self.name}.bias") if self.affine else ()

    def forward(self, rows: Tensor, params: Params) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Each sample's groups at mean 0 and variance 1, scaled and shifted."""
        flat = rows.flatten(0, 1).contiguous()
        even, mean, deviation = aten.native_group_norm(flat, None, None, *self._sizes(flat), self.groups, self.eps)
        even = even.view(rows.shape)
        if not self.affine:
            return even, (flat, mean, deviation, even)
        scale, shift = (self._wide(params[name], rows) for name in self.names)
        return torch.addcmul(shift, even, scale), (flat, mean, deviation, even)

    def back(self, errors: Tensor, kept: tuple[Tensor, ...], params: Params) -> Tensor:
        """Errors at the inputs."""
        flat, mean, deviation, even = kept
        if self.affine:
            errors = errors * self._wide(params[self.names[0]], errors)
        straight = errors.flatten(0, 1).contiguous()
        found = aten.native_group_norm_backward(
            straight, flat, mean, deviation, None, *self._sizes(flat), self.groups, [True, False, False]
        )
        at_rows: Tensor = found[0]
        return at_rows.view(even.shape)

    def gradient(self, errors: Tensor, kept: tuple[Tensor, ...], into: Into) -> None:
        """By scale and shift."""
        if self.affine:
            over = (1, *range(3, errors.ndim))
            into.adds(self.names[0], (errors * kept[3]).sum(over))
            into.adds(self.names[1], errors.sum(over))

    def _sizes(self, flat: Tensor) -> tuple[int, int, int]:
        return flat.shape[0], flat.shape[1], flat[0, 0].numel()

    def _wide(self, own: Tensor, rows: Tensor) -> Tensor:
        return own.view(len(own), 1, -1, *[1] * (rows.ndim - 3))
