"""A chain of layers with weights of each UE's own: losses and gradients of many UEs, added where they are wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

from torch import Tensor, fx, nn

from hpfl.learning.batches import Batch
from hpfl.learning.chain.convolution import Convolution
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.free import Flatten, Free, MaxPool, Relu
from hpfl.learning.chain.output import Output, output_of
from hpfl.learning.chain.reading import chain_layers, unlike_its_parameters
from hpfl.learning.own.layers import Into, OwnDense, OwnLayer, OwnNorm, Params
from hpfl.learning.own.lone_dense import LoneDense
from hpfl.learning.own.overwritten import OverwritingRelu
from hpfl.learning.own.own_convolution import OwnConvolution, channels_last
from hpfl.learning.task import Task

_OWN = (OwnDense, OwnConvolution, OwnNorm)


@dataclass(frozen=True)
class OwnNetwork:
    """Layers in order, and the loss behind them."""

    layers: tuple[OwnLayer | Free, ...]
    output: Output

    @staticmethod
    def of(task: Task) -> "OwnNetwork | None":
        """The network that a task's module is, or None for one that is more than a chain of layers known here."""
        try:
            layers = chain_layers(task.module, fx.symbolic_trace(task.module).graph, {nn.GroupNorm: _norm})
        except Exception:  # noqa: BLE001  tracing runs the user's code, which may object in any way; then it is none
            return None
        convolves = any(isinstance(layer, Convolution) for layer in layers)
        own = tuple(_pooled_first([_own(layer, alone=convolves) for layer in layers]))
        own = _overwriting(own) if convolves else own
        names = [name for layer in own if is_own(layer) for name in layer.names]
        if not names or unlike_its_parameters(task, names):
            return None
        return OwnNetwork(own, output_of(task.criterion, task.loss))

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all parameters."""
        return frozenset(name for layer in self.layers if is_own(layer) for name in layer.names)

    @property
    def convolves(self) -> bool:
        """Whether there are convolutions."""
        return bool(self.filters)

    @cached_property
    def filters(self) -> frozenset[str]:
        """The weights of convolutions."""
        return frozenset(f"{layer.name}.weight" for layer in self.layers if isinstance(layer, OwnConvolution))

    def laid(self, params: Params) -> Params:
        """Parameters as layers read them best: on a CPU, filters with their channels last."""
        return {
            name: channels_last(own) if name in self.filters and not own.is_cuda else own
            for name, own in params.items()
        }

    def room(self, name: str, shape: Sequence[int], make: Callable[[Sequence[int]], Tensor]) -> Tensor:
        """Room for a parameter [u, ...] that lies as layers on a CPU read it best."""
        if name not in self.filters:
            return make(shape)
        ues, out, channels, tall, wide = shape
        return make((ues, out, tall, wide, channels)).permute(0, 1, 4, 2, 3)

    def outputs(self, params: Params, inputs: Tensor, tape: list[Any] | None = None) -> Tensor:
        """Outputs [u, n, ...] of inputs [u, n, ...]; what derivatives need goes to the tape."""
        rows = inputs
        for layer in self.layers:
            rows, kept = forward(layer, rows, params)
            if tape is not None:
                tape.append(kept)
        return rows

    def gradient(self, params: Params, batch: Batch, into: Into) -> Tensor:
        """Add the gradient at a point; the loss [u] there.

        Gradients may go into the point itself: a layer's errors are passed on before its weights move.
        """
        tape: list[Any] = []
        rows = self.outputs(params, batch.inputs, tape)
        loss, errors, _ = self.output.errors(rows.to(batch.weights.dtype), batch)
        lowest = self._lowest(into.moving)
        for place in range(len(self.layers) - 1, lowest - 1, -1):
            layer, kept = self.layers[place], tape[place]
            if is_own(layer):
                below = layer.back(errors, kept, params) if place > lowest else errors
                layer.gradient(errors, kept, into)
                errors = below
            else:
                free: Any = layer
                errors = free.pull(errors, kept)
                if isinstance(layer, Flatten) and errors.ndim == 5 and not errors.is_cuda:
                    errors = channels_last(errors)  # as the outputs lie that they meet next
        return loss

    def split(self, moving: frozenset[str]) -> "tuple[OwnNetwork, OwnNetwork]":
        """The layers below the first of which a parameter moves, and those from it on."""
        lowest = self._lowest(moving)
        return replace(self, layers=self.layers[:lowest]), replace(self, layers=self.layers[lowest:])

    def _lowest(self, moving: frozenset[str]) -> int:
        """The first layer of which a parameter moves: no errors are wanted below it."""
        for place, layer in enumerate(self.layers):
            if is_own(layer) and not moving.isdisjoint(layer.names):
                return place
        return len(self.layers)


def forward(layer: Any, rows: Tensor, params: Params) -> tuple[Tensor, Any]:
    """Outputs of a layer, and what derivatives need."""
    found: tuple[Tensor, Any] = layer.forward(rows, params) if is_own(layer) else layer.forward(rows)
    return found


def is_own(layer: OwnLayer | Free) -> TypeGuard[OwnLayer]:
    """Whether a layer has weights."""
    return isinstance(layer, _OWN)


def _norm(part: nn.GroupNorm, name: str) -> OwnNorm:
    return OwnNorm(name, part.num_groups, part.eps, part.affine)


def _own(layer: Any, *, alone: bool) -> OwnLayer | Free:
    if isinstance(layer, Dense):
        return (LoneDense if alone else OwnDense)(layer.name, layer.has_bias)
    if isinstance(layer, Convolution):
        return OwnConvolution(layer.name, layer.outer_shape, layer.has_bias, layer.geometry)
    found: OwnLayer | Free = layer
    return found


def _pooled_first(layers: Sequence[OwnLayer | Free]) -> list[OwnLayer | Free]:
    """ReLU after the maximum pooling it stood before: the same numbers from a quarter of the work."""
    found = list(layers)
    for place in range(len(found) - 1):
        if isinstance(found[place], Relu) and isinstance(found[place + 1], MaxPool):
            found[place], found[place + 1] = found[place + 1], found[place]
    return found


def _overwriting(layers: tuple[OwnLayer | Free, ...]) -> tuple[OwnLayer | Free, ...]:
    """ReLU in place behind layers that do not need their outputs again."""
    before = (None, *layers)
    return tuple(
        OverwritingRelu() if isinstance(own, Relu) and isinstance(last, OwnDense | OwnConvolution | MaxPool) else own
        for last, own in zip(before, layers, strict=False)
    )
