"""Local updates of two models at once, a private and a shared one, for all UEs of a chunk: APFL's and pFedMe's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpfl.learning.own.chunk import OwnChunk
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.stage import first_ues


@dataclass(frozen=True)
class Mixing:
    """`w <- w - rate grad f(w)`, `v <- v - rate alpha grad f(alpha v + (1 - alpha) w)`; `alpha` in the first step."""

    rate: float
    adaptive: bool


@dataclass(frozen=True)
class Envelope:
    """`theta <- theta - rate (grad f(theta) + penalty (theta - near))`, some times; `near` by a pace towards it."""

    rate: float
    penalty: float
    times: int
    pace: float


def mixed(
    chunk: OwnChunk, how: Mixing, numbers: Sequence[int], models: tuple[Tensor, Tensor], share: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Private models [u, P], copies of the shared one, shares [u], and the first losses at copy and mixture."""
    private, copy = (chunk.walking(model) for model in models)
    mixture = {name: torch.empty_like(own) for name, own in copy.items()}
    names, losses = chunk.network.names, list[Tensor]()
    for number in numbers:
        count = chunk.active(number)
        if not count:
            continue
        own, mine, both = (_first(params, count) for params in (copy, private, mixture))
        batch, used = first_ues(chunk.batch(number), count), share[:count]
        for name in names:
            torch.lerp(own[name], mine[name], _wide(used, own[name]), out=both[name])
        if not losses:
            found = {name: torch.empty_like(part) for name, part in both.items()}
            losses.append(chunk.network.gradient(both, batch, Into(found, names)))
            gaps = [((mine[name] - own[name]) * found[name]).flatten(1).sum(1) for name in names]
            for name in names:
                mine[name].addcmul_(found[name], _wide(used, found[name]), value=-how.rate)
            if how.adaptive:
                share = (share - how.rate * torch.stack(gaps).sum(0)).clamp(0.0, 1.0)
        else:  # a loss that counts less has a gradient that is smaller alike
            less = replace(batch, weights=batch.weights * used[:, None])
            chunk.network.gradient(both, less, Into(mine, names, beta=1.0, alpha=-how.rate))
        losses.append(chunk.network.gradient(own, batch, Into(own, names, beta=1.0, alpha=-how.rate)))
    return chunk.whole(private, models[0]), chunk.whole(copy, models[1]), share, losses[1], losses[0]


def enveloped(chunk: OwnChunk, how: Envelope, numbers: Sequence[int], start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Personal models [u, P], local ones near them, and the first losses [u]."""
    theta, near = chunk.walking(start), chunk.walking(start)
    names, first, pull = chunk.network.names, None, how.rate * how.penalty
    for number in numbers:
        count = chunk.active(number)
        batch, own, close = first_ues(chunk.batch(number), count), _first(theta, count), _first(near, count)
        for _ in range(how.times if count else 0):
            loss = chunk.network.gradient(own, batch, Into(own, names, beta=1 - pull, alpha=-how.rate))
            for name in names:
                own[name].add_(close[name], alpha=pull)
            first = loss if first is None else first
        for name in names:
            close[name].lerp_(own[name], how.pace)
    assert first is not None
    return chunk.whole(theta, start), chunk.whole(near, start), first


def looked_ahead(
    chunk: OwnChunk, rates: tuple[float, float], numbers: Sequence[int], start: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`w <- w - outer grad f(w - inner grad f(w))`: where it ends [u, P], the first losses at `w` and after it."""
    (inner, outer), point = rates, chunk.walking(start)
    ahead = {name: torch.empty_like(own) for name, own in point.items()}
    names, first = chunk.network.names, list[Tensor]()
    for number in numbers:
        count = chunk.active(number)
        if not count:
            continue
        own, adapted = _first(point, count), _first(ahead, count)
        for name in names:
            adapted[name].copy_(own[name])
        support, query = (first_ues(chunk.batch(number, role), count) for role in ("support", "query"))
        loss = chunk.network.gradient(own, support, Into(adapted, names, beta=1.0, alpha=-inner))
        after = chunk.network.gradient(adapted, query, Into(own, names, beta=1.0, alpha=-outer))
        first = first or [loss, after]
    return chunk.whole(point, start), first[0], first[1]


def _first(params: Params, count: int) -> Params:
    return {name: own[:count] for name, own in params.items()}


def _wide(each: Tensor, part: Tensor) -> Tensor:
    return each.view(-1, *[1] * (part.ndim - 1))
