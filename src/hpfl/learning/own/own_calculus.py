"""What a method written for one UE is given where weights are each UE's own: its calls compute for all at once.

Inside `torch.func.vmap` a method sees one UE. What it asks of a step comes out here for all UEs of the chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpfl.learning.general import Arrays, FlatCalculus
from hpfl.learning.objective import Gradient, Role
from hpfl.learning.own.chunk import OwnChunk, Pace
from hpfl.learning.own.mixing import Learning, learnt_weights
from hpfl.learning.own.pairs import Envelope, Mixing, enveloped, looked_ahead, mixed


@dataclass(frozen=True)
class OwnCalculus(FlatCalculus):
    """Gradients of one UE of a chunk; `batches` are of all steps, [S, n, ...]."""

    chunk: OwnChunk
    number: int  # of the step, in the stack
    ue: Tensor  # something that is each UE's own, so that calls are made for all
    taken: Tensor  # [S]: whether the UE takes a step

    @property
    def active(self) -> Tensor:
        """Whether any sample counts."""
        return self.taken[self.number]

    def gradient(self, point: Tensor, role: Role = "support", *, keep: bool = False) -> Gradient:
        """Gradient by hand; one that is to be differentiated again by reverse mode."""
        if keep:
            return super().gradient(point, role, keep=True)
        loss, direction = _called(_Gradient, self.chunk, self.number, role, self.ue, point)
        return Gradient(point, loss, direction)

    def _batch(self, role: Role) -> Arrays:
        inputs, targets, weights = super()._batch(role)
        return inputs[self.number], targets[self.number], weights[self.number]


def walked(
    pace: Pace, steps: Sequence[OwnCalculus], start: Tensor, centre: Tensor | None, drift: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Where steps lead from a start, and the loss there."""
    numbers, first = tuple(step.number for step in steps), steps[0]
    found: tuple[Tensor, Tensor] = _called(_Walk, first.chunk, pace, numbers, first.ue, start, centre, drift)
    return found


def learnt(how: Learning, steps: Sequence[Any], models: tuple[Tensor, Tensor], begun: tuple[Tensor, Tensor]) -> Tensor:
    """The weights of a UE's mixture of two models [P], learnt on steps; see `mixing`."""
    numbers, first = tuple(step.number for step in steps), steps[0]
    found: Tensor = _called(_Learn, first.chunk, how, numbers, first.ue, *models, *begun)
    return found


def mixture(
    how: Mixing, steps: Sequence[Any], models: tuple[Tensor, Tensor], share: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A private model and a copy of the shared one after steps; see `pairs.mixed`."""
    numbers, first = tuple(step.number for step in steps), steps[0]
    found: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] = _called(
        _Mixed, first.chunk, how, numbers, first.ue, *models, share
    )
    return found


def envelope(how: Envelope, steps: Sequence[Any], start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A personal and a local model after steps; see `pairs.enveloped`."""
    numbers, first = tuple(step.number for step in steps), steps[0]
    found: tuple[Tensor, Tensor, Tensor] = _called(_Enveloped, first.chunk, how, numbers, first.ue, start)
    return found


def ahead(rates: tuple[float, float], steps: Sequence[Any], start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First-order meta steps; see `pairs.looked_ahead`."""
    numbers, first = tuple(step.number for step in steps), steps[0]
    found: tuple[Tensor, Tensor, Tensor] = _called(_Ahead, first.chunk, rates, numbers, first.ue, start)
    return found


def together(steps: Sequence[Any]) -> bool:
    """Whether all steps are of a chunk whose UEs' weights are their own."""
    return bool(steps) and all(isinstance(step, OwnCalculus) for step in steps)


def said(chunk: OwnChunk, ue: Tensor, point: Tensor, inputs: Tensor) -> Tensor:
    """Outputs of a UE's model on inputs [n, ...]."""
    found: Tensor = _called(_Said, chunk, ue, point, inputs)
    return found


def _called(function: Any, *given: Any) -> Any:
    return function.apply(*given)


class _ForAll(torch.autograd.Function):
    """A call for one UE that is always made for all of a chunk."""

    @staticmethod
    def forward(*given: Any) -> Any:
        raise NotImplementedError("called for one UE outside of its chunk")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """There is no way back: these are not differentiated."""


class _Gradient(_ForAll):
    @staticmethod
    def vmap(info: Any, in_dims: Any, chunk: OwnChunk, number: int, role: str, ue: Tensor, point: Tensor) -> Any:
        return chunk.gradient(number, role, _rows(info, in_dims[4], point)), (0, 0)


class _Walk(_ForAll):
    @staticmethod
    def vmap(
        info: Any, in_dims: Any, chunk: OwnChunk, pace: Pace, numbers: tuple[int, ...], ue: Tensor, *own: Tensor | None
    ) -> Any:
        given = zip(in_dims[4:], own, strict=True)
        start, centre, drift = (None if each is None else _rows(info, dim, each) for dim, each in given)
        assert start is not None
        return chunk.walk(pace, numbers, start, centre, drift), (0, 0)


class _Learn(_ForAll):
    @staticmethod
    def vmap(
        info: Any, in_dims: Any, chunk: OwnChunk, how: Learning, numbers: tuple[int, ...], ue: Tensor, *own: Tensor
    ) -> Any:
        shared, mine, weights, known = (_rows(info, dim, each) for dim, each in zip(in_dims[4:], own, strict=True))
        return learnt_weights(chunk, how, numbers, (shared, mine), (weights, known)), 0


class _Mixed(_ForAll):
    @staticmethod
    def vmap(
        info: Any, in_dims: Any, chunk: OwnChunk, how: Mixing, numbers: tuple[int, ...], ue: Tensor, *own: Tensor
    ) -> Any:
        private, copy, share = (_rows(info, dim, each) for dim, each in zip(in_dims[4:], own, strict=True))
        return mixed(chunk, how, numbers, (private, copy), share), (0,) * 5


class _Enveloped(_ForAll):
    @staticmethod
    def vmap(
        info: Any, in_dims: Any, chunk: OwnChunk, how: Envelope, numbers: tuple[int, ...], ue: Tensor, start: Tensor
    ) -> Any:
        return enveloped(chunk, how, numbers, _rows(info, in_dims[4], start)), (0,) * 3


class _Ahead(_ForAll):
    @staticmethod
    def vmap(
        info: Any,
        in_dims: Any,
        chunk: OwnChunk,
        rates: tuple[float, float],
        numbers: tuple[int, ...],
        ue: Tensor,
        start: Tensor,
    ) -> Any:
        return looked_ahead(chunk, rates, numbers, _rows(info, in_dims[-1], start)), (0,) * 3


class _Said(_ForAll):
    @staticmethod
    def vmap(info: Any, in_dims: Any, chunk: OwnChunk, ue: Tensor, point: Tensor, inputs: Tensor) -> Any:
        return chunk.outputs(_rows(info, in_dims[2], point), _rows(info, in_dims[3], inputs)), 0


def _rows(info: Any, dim: int | None, own: Tensor) -> Tensor:
    """A row for each UE; one that is the same for all is not copied."""
    return own.expand(info.batch_size, *own.shape) if dim is None else own.movedim(dim, 0)
