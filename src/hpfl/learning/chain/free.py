"""Layers without weights: what each does to rows, to errors on the way back, and to tangents of both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from torch import Tensor

aten = torch.ops.aten


class Free(Protocol):
    """A layer without weights over rows [u, n, ...]; `kept` is what its own derivatives need."""

    def forward(self, rows: Tensor) -> tuple[Tensor, Any]:
        """Outputs, and what to keep."""

    def pull(self, errors: Tensor, kept: Any) -> Tensor:
        """Errors at the inputs."""

    def push(self, tangents: Tensor, kept: Any) -> Tensor:
        """Tangents of the outputs."""

    def bend(self, errors: Tensor, tangents: Tensor, kept: Any) -> Tensor | None:
        """Derivative of `pull` along tangents of the inputs, the errors held; None where it is zero."""


@dataclass(frozen=True)
class Relu:
    """`max(0, z)`."""

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, whose sign is all that derivatives need."""
        outputs = rows.relu()
        return outputs, outputs

    def pull(self, errors: Tensor, kept: Tensor) -> Tensor:
        """Errors where the output is positive."""
        result: Tensor = aten.threshold_backward(errors, kept, 0)
        return result

    def push(self, tangents: Tensor, kept: Tensor) -> Tensor:
        """Tangents where the output is positive."""
        return self.pull(tangents, kept)

    def bend(self, errors: Tensor, tangents: Tensor, kept: Tensor) -> None:
        """Piecewise linear."""


@dataclass(frozen=True)
class Tanh:
    """`tanh z`."""

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, of which all derivatives are polynomials."""
        outputs = rows.tanh()
        return outputs, outputs

    def pull(self, errors: Tensor, kept: Tensor) -> Tensor:
        """`E (1 - a^2)`."""
        result: Tensor = aten.tanh_backward(errors, kept)
        return result

    def push(self, tangents: Tensor, kept: Tensor) -> Tensor:
        """`R (1 - a^2)`."""
        return self.pull(tangents, kept)

    def bend(self, errors: Tensor, tangents: Tensor, kept: Tensor) -> Tensor:
        """`-2 a (1 - a^2) E R`."""
        return self.pull(errors, kept) * tangents * kept * -2


@dataclass(frozen=True)
class Elementwise:
    """Any smooth function of each number alone; derivatives by `torch.func`."""

    function: Callable[[Tensor], Tensor]

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs; derivatives are taken at the inputs."""
        return self.function(rows), rows

    def pull(self, errors: Tensor, kept: Tensor) -> Tensor:
        """`E f'(z)`."""
        return errors * self._slope(kept)

    def push(self, tangents: Tensor, kept: Tensor) -> Tensor:
        """`R f'(z)`."""
        return tangents * self._slope(kept)

    def bend(self, errors: Tensor, tangents: Tensor, kept: Tensor) -> Tensor:
        """`E R f''(z)`."""
        bent: Tensor = torch.func.grad(lambda rows: (self._slope(rows) * tangents).sum())(kept)
        return errors * bent

    def _slope(self, rows: Tensor) -> Tensor:
        slope: Tensor = torch.func.grad(lambda rows: self.function(rows).sum())(rows)
        return slope


@dataclass(frozen=True)
class Flatten:
    """[u, n, ...] to [u, n, features]."""

    def forward(self, rows: Tensor) -> tuple[Tensor, torch.Size]:
        """Outputs, and the shape to go back to."""
        return rows.flatten(2), rows.shape

    def pull(self, errors: Tensor, kept: torch.Size) -> Tensor:
        """The inputs' shape again."""
        return errors.reshape(kept)

    def push(self, tangents: Tensor, kept: torch.Size) -> Tensor:
        """Flattened likewise."""
        return tangents.flatten(2)

    def bend(self, errors: Tensor, tangents: Tensor, kept: torch.Size) -> None:
        """Linear."""


@dataclass(frozen=True)
class MaxPool:
    """`torch.nn.MaxPool2d`."""

    window: tuple[Any, ...]  # kernel, stride, padding, dilation, ceil mode

    def forward(self, rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs, and where each came from."""
        flat = rows.flatten(0, 1)
        outputs, places = aten.max_pool2d_with_indices(flat, *self.window)
        return outputs.unflatten(0, rows.shape[:2]), (flat, places)

    def pull(self, errors: Tensor, kept: tuple[Tensor, Tensor]) -> Tensor:
        """Errors to the places the outputs came from."""
        flat, places = kept
        result = aten.max_pool2d_with_indices_backward(errors.flatten(0, 1).to(flat.dtype), flat, *self.window, places)
        return _unflatten(result, errors)

    def push(self, tangents: Tensor, kept: tuple[Tensor, Tensor]) -> Tensor:
        """Tangents of the places the outputs came from."""
        places = kept[1]
        taken = tangents.flatten(0, 1).flatten(2).gather(2, places.flatten(2))
        return _unflatten(taken.view(places.shape), tangents)

    def bend(self, errors: Tensor, tangents: Tensor, kept: tuple[Tensor, Tensor]) -> None:
        """Piecewise linear."""


@dataclass(frozen=True)
class AvgPool:
    """`torch.nn.AvgPool2d`."""

    window: tuple[Any, ...]  # kernel, stride, padding, ceil mode, count of padding, divisor

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs; the inputs are kept for their shape."""
        return self.push(rows, rows), rows

    def pull(self, errors: Tensor, kept: Tensor) -> Tensor:
        """Errors shared out over each window."""
        result = aten.avg_pool2d_backward(errors.flatten(0, 1).to(kept.dtype), kept.flatten(0, 1), *self.window)
        return _unflatten(result, errors)

    def push(self, tangents: Tensor, kept: Tensor) -> Tensor:
        """The same mean of the tangents."""
        return _unflatten(F.avg_pool2d(tangents.flatten(0, 1), *self.window), tangents)

    def bend(self, errors: Tensor, tangents: Tensor, kept: Tensor) -> None:
        """Linear."""


def _unflatten(flat: Tensor, like: Tensor) -> Tensor:
    return flat.view(*like.shape[:2], *flat.shape[1:])
