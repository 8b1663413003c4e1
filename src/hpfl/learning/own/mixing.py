"""The weights by which FedALA's UEs mix two models, learnt by all UEs of a chunk at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.own.chunk import OwnChunk
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.stage import first_ues


@dataclass(frozen=True)
class Learning:
    """`W <- clip(W - rate (w - p) gradient, 0, 1)` in the parameters named; one pass, more for who begins."""

    names: tuple[str, ...]  # in their order in a vector
    rate: float
    first_passes: int


def learnt_weights(
    chunk: OwnChunk, how: Learning, numbers: Sequence[int], models: tuple[Tensor, Tensor], begun: tuple[Tensor, Tensor]
) -> Tensor:
    """Weights [u, h] after the passes; `models`: the shared and the own [u, P]; `begun`: weights, whether learnt."""
    (shared, mine), (weights, learnt) = models, begun
    point, own = chunk.parts(shared), _some(chunk.parts(mine), how.names)
    far = {name: point[name] - own[name] for name in how.names}
    point |= {name: torch.empty_like(far[name]) for name in how.names}
    slopes = {name: torch.empty_like(far[name]) for name in how.names}
    parts = torch.split(weights, [far[name][0].numel() for name in how.names], dim=1)
    held = {
        name: torch.empty_like(far[name]).copy_(part.view(far[name].shape))
        for name, part in zip(how.names, parts, strict=True)
    }
    fresh = learnt == 0
    for number in range(how.first_passes if bool(fresh.any()) else 1):
        before = {name: part.clone() for name, part in held.items()} if number else held
        for step in numbers:
            count = chunk.active(step)
            _pass(chunk, how, step, (_first(point, count), _first(own, count), _first(far, count)), slopes, held)
        if number:
            held = {name: torch.where(_like(fresh, part), part, before[name]) for name, part in held.items()}
    return torch.cat([held[name].flatten(1) for name in how.names], 1)


def _pass(
    chunk: OwnChunk, how: Learning, step: int, models: tuple[Params, Params, Params], slopes: Params, held: Params
) -> None:
    """One step of the weights of the first UEs, in place."""
    (point, own, far), count = models, chunk.active(step)
    if not count:
        return
    for name in how.names:
        torch.addcmul(own[name], far[name], held[name][:count], out=point[name])
    into = Into(_first(slopes, count), frozenset(how.names))
    chunk.network.gradient(point, first_ues(chunk.batch(step), count), into)
    for name in how.names:
        held[name][:count].addcmul_(far[name], into.params[name], value=-how.rate).clamp_(0.0, 1.0)


def _some(params: Params, names: Sequence[str]) -> Params:
    return {name: params[name] for name in names}


def _first(params: Params, count: int) -> Params:
    return {name: own[:count] for name, own in params.items()}


def _like(mask: Tensor, part: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (part.ndim - 1))
