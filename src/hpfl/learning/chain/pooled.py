"""A convolution with ReLU and 2 x 2 max pooling as one link on a GPU: what is not the largest of four never exists.

The kernels are written in Triton, which comes with torch for CUDA; without it, links stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from hpfl.learning.chain.convolution import Convolution
from hpfl.learning.chain.delta import Delta
from hpfl.learning.chain.free import MaxPool, Relu
from hpfl.learning.chain.link import At, Link, Passage, Pushed
from hpfl.learning.chain.weighted import formed

_HALVING = MaxPool(((2, 2), (2, 2), (0, 0), (1, 1), False))
_MOST_CHANNELS, _MOST_TAPS = 32, 49  # beyond, a program's sums leave the registers and the libraries catch up

Source = tuple[Tensor, Tensor]  # rows or errors, and the weights they meet, [u, ...] or shared


@dataclass(frozen=True)
class Tiles:
    """How much one program does: outputs at once, blocks of two by two pixels, warps."""

    outputs: int
    blocks: int
    warps: int

    @property
    def span(self) -> int:
        """Blocks that one program adds up: the same whatever the chunk, so that bits do not change."""
        return 64 * self.blocks


NARROW, WIDE, OUTER = Tiles(8, 64, 2), Tiles(16, 64, 2), Tiles(2, 32, 1)  # the fastest of some fifty on an H200


@dataclass(frozen=True)
class Kernels:
    """Launches of the kernels for one convolution."""

    layer: Convolution

    def pool(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs [u, n, out, height, width] after ReLU and pooling, and the place each came from."""
        outputs = rows.new_empty(*rows.shape[:2], self.layer.outer_shape[0], *self._pooled_size(rows))
        places = torch.empty_like(outputs, dtype=torch.uint8)
        self._convolve("pool", [(rows, weight)], bias, (outputs, places))
        return outputs, places

    def pick(self, sources: Sequence[Source], bias: Tensor | None, places: Tensor) -> Tensor:
        """The sum of the sources' outputs at the places."""
        outputs = torch.empty_like(places, dtype=sources[0][0].dtype)
        self._convolve("pick", sources, bias, (outputs, places))
        return outputs

    def back(self, sources: Sequence[Source], places: Tensor, rows: Tensor) -> Tensor:
        """Errors at the rows from pooled errors at the places."""
        outputs = torch.empty_like(rows)
        self._convolve("back", sources, None, (outputs, places))
        return outputs

    def outer(self, rows: Tensor, errors: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [u, ...] by weight and bias from pooled errors at the places."""
        from hpfl.learning.chain import kernels

        (out, into, *window), tiles = self.layer.outer_shape, OUTER
        rows, errors = rows.contiguous(), errors.contiguous()
        splits = -(-errors[0, :, 0].numel() // tiles.span)
        weight = rows.new_empty(len(rows), splits, out, into, *window)
        bias = rows.new_empty(len(rows), splits, out)
        with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
            kernels.outer[(len(rows) * splits, into, -(-out // tiles.outputs))](
                rows, errors, places, weight, bias, rows.shape[1], splits,
                **self._sizes(rows, self.layer.geometry.padding), SPAN=tiles.span,
                TILE=tiles.outputs, BLOCK=tiles.blocks, ACC=kernels.sum_type(rows.dtype), num_warps=tiles.warps,
            )  # fmt: skip
        return weight.sum(1), bias.sum(1)

    def _convolve(
        self, mode: str, sources: Sequence[Source], bias: Tensor | None, results: tuple[Tensor, Tensor]
    ) -> None:
        from hpfl.learning.chain import kernels

        (outputs, places), back = results, mode == "back"
        (rows, weight), (other, other_weight) = ((r.contiguous(), _in_fours(w)) for r, w in (sources[0], sources[-1]))
        other, other_weight = other.to(rows.dtype), other_weight.to(weight.dtype)
        bias = bias if bias is None else bias.contiguous()
        sizes = self._back_sizes(rows, outputs) if back else self._sizes(rows, self.layer.geometry.padding)
        tiles = WIDE if sizes["O"] > NARROW.outputs else NARROW
        blocks = (sizes["OH"] + back) // 2 * ((sizes["OW"] + back) // 2)
        grid = (len(rows) * -(-rows.shape[1] * blocks // tiles.blocks), -(-sizes["O"] // tiles.outputs))
        with torch.cuda.device_of(rows):  # type: ignore[no-untyped-call]
            kernels.convolve[grid](
                rows, weight, _fours(weight), other, other_weight, _fours(other_weight),
                weight if bias is None else bias, 0 if bias is None or bias.ndim == 1 else bias.stride(0),
                outputs, places, len(sources) * sizes["C"], rows.shape[1], **sizes, MODE=mode, BIAS=bias is not None,
                TILE=tiles.outputs, BLOCK=tiles.blocks, ACC=kernels.sum_type(rows.dtype), num_warps=tiles.warps,
            )  # fmt: skip

    def _pooled_size(self, rows: Tensor) -> tuple[int, int]:
        height, width = self.layer.geometry.output_size(rows, self.layer.outer_shape)
        return height // 2, width // 2

    def _sizes(self, rows: Tensor, padding: tuple[int, int]) -> dict[str, int]:
        (out, into, tall, wide), (down, right) = self.layer.outer_shape, self.layer.geometry.stride
        height, width = self.layer.geometry.output_size(rows, self.layer.outer_shape)
        return {
            "C": into,
            "H": rows.shape[3],
            "W": rows.shape[4],
            "O": out,
            "OH": height,
            "OW": width,
            "KH": tall,
            "KW": wide,
            "S": down,
            "R": right,
            "P": padding[0],
            "Q": padding[1],
        }

    def _back_sizes(self, errors: Tensor, rows: Tensor) -> dict[str, int]:
        (out, into, tall, wide), padding = self.layer.outer_shape, self.layer.geometry.padding
        return {
            "C": out,
            "H": errors.shape[3],
            "W": errors.shape[4],
            "O": into,
            "OH": rows.shape[3],
            "OW": rows.shape[4],
            "KH": tall,
            "KW": wide,
            "S": 1,
            "R": 1,
            "P": tall - 1 - padding[0],
            "Q": wide - 1 - padding[1],
        }


@dataclass(frozen=True)
class PooledLink(Link):
    """A convolution, ReLU and 2 x 2 max pooling, then other layers without weights; directions are formed at once."""

    kernels: Kernels

    def at_start(self, rows: Tensor, weights: Any) -> None:
        """Nothing: moved weights cost no more than a delta."""

    def forward(self, rows: Tensor, at: At, known: Tensor | None = None) -> tuple[Tensor, Passage]:
        """Pooled outputs at a point."""
        passage = Passage(rows)
        outputs, passage.places = self.kernels.pool(rows, self._weight(at), self._bias(at))
        return self._onward(outputs, passage), passage

    def backward(self, errors: Tensor, passage: Passage) -> Delta:
        """The gradient, formed."""
        passage.errors = self._pulled(errors, passage)
        weight, bias = self.kernels.outer(passage.rows, passage.errors, passage.places)
        return Delta((), weight, bias)

    def back(self, errors: Any, at: At, passage: Passage) -> Tensor:
        """Errors at the inputs."""
        return self.kernels.back([(errors, self._weight(at))], passage.places, passage.rows)

    def push(self, tangents: Tensor | None, at: At, direction: Delta, passage: Passage) -> tuple[Tensor, Pushed]:
        """Tangents of the pooled outputs: those of the places they came from."""
        weight, bias = formed(self.layer, direction)
        sources = (
            [(passage.rows, weight)] if tangents is None else [(passage.rows, weight), (tangents, self._weight(at))]
        )
        pushed = Pushed(tangents)
        along = self.kernels.pick(sources, bias if at.weights.bias is not None else None, passage.places)
        return self._pushed_on(along, passage, pushed), pushed

    def pull_tangents(self, errors: Tensor, passage: Passage, pushed: Pushed) -> tuple[Any, Delta]:
        """Tangents of the pooled errors, and the link's part of the Hessian-vector product, formed."""
        tangents = self._pulled_tangents(errors, passage, pushed)
        weight, bias = self.kernels.outer(passage.rows, tangents, passage.places)
        if pushed.rows is not None:
            weight += self.kernels.outer(pushed.rows, passage.errors, passage.places)[0]
        return tangents, Delta((), weight, bias)

    def back_tangents(self, tangents: Any, at: At, direction: Delta, passage: Passage) -> Tensor:
        """Tangents of the errors at the inputs."""
        sources = [(tangents, self._weight(at)), (passage.errors, formed(self.layer, direction)[0])]
        return self.kernels.back(sources, passage.places, passage.rows)

    def _weight(self, at: At) -> Tensor:
        weight = at.weights.weight
        return weight if at.delta is None else weight + formed(self.layer, at.delta)[0]

    def _bias(self, at: At) -> Tensor | None:
        bias, moved = at.weights.bias, None if at.delta is None else formed(self.layer, at.delta)[1]
        return bias if bias is None or moved is None else bias + moved


def kernels_run_on(example: Tensor) -> bool:
    """Whether there are kernels for a tensor's device."""
    return example.is_cuda and find_spec("triton") is not None


def pooled(link: Link, example: Tensor) -> Link:
    """The link with its convolution, ReLU and pooling as one, where they are such and kernels run on the device."""
    layer, then = link.layer, link.then
    if not isinstance(layer, Convolution) or not _suits(layer) or not kernels_run_on(example):
        return link
    if len(then) < 2 or not any(isinstance(a, Relu) and b == _HALVING for a, b in (then[:2], then[1::-1])):
        return link
    return PooledLink(layer, then[2:], Kernels(layer))


def _suits(layer: Convolution) -> bool:
    (out, into, tall, wide), geometry = layer.outer_shape, layer.geometry
    small = max(out, into) <= _MOST_CHANNELS and tall * wide <= _MOST_TAPS
    plain = geometry.groups == 1 and geometry.dilation == (1, 1) and geometry.stride == (1, 1)
    return small and plain and geometry.padding[0] < tall and geometry.padding[1] < wide


def _in_fours(weight: Tensor) -> Tensor:
    """Weights [..., taps], filled up to a multiple of four."""
    flat = weight.flatten(-2)
    return torch.nn.functional.pad(flat, (0, -flat.shape[-1] % 4)).contiguous()


def _fours(weight: Tensor) -> int:
    """Fours of numbers from one UE's weights to the next; 0 where all share one."""
    return weight.stride(0) // 4 if weight.ndim == 4 else 0
