"""Local updates of two models at once, a private and a shared one, for all UEs of a chunk: APFL's and pFedMe's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.own.chunk import OwnChunk
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.recorded_steps import Moving, all_taken, first_state, taken
from hpfl.learning.own.stage import first_params, first_ues

_SHARE = "share"


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
    mixture, found = ({name: torch.empty_like(own) for name, own in copy.items()} for _ in range(2))
    share, *losses = mix(chunk, how, numbers, (copy, private, mixture, found), share)
    return chunk.whole(private, models[0]), chunk.whole(copy, models[1]), share, losses[0], losses[1]


def mix(
    chunk: OwnChunk, how: Mixing, numbers: Sequence[int], models: Moving, share: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of copies and private models in place, with room for mixtures and gradients: shares and losses."""
    network, names, state, slopes = chunk.network, chunk.network.names, models[:3], models[3]

    def blended(own: Params, mine: Params, both: Params, used: Tensor) -> None:
        for name in names:
            torch.lerp(own[name], mine[name], _wide(used, own[name]), out=both[name])

    def moved(own: Params, batch: Batch) -> Tensor:
        return network.gradient(own, batch, Into(own, names, beta=1.0, alpha=-how.rate))

    def step(own: Params, mine: Params, both: Params, shares: Params, batch: Batch) -> Tensor:
        blended(own, mine, both, used := shares[_SHARE])
        less = replace(batch, weights=batch.weights * used[:, None])  # so its gradient is smaller alike
        network.gradient(both, less, Into(mine, names, beta=1.0, alpha=-how.rate))
        return moved(own, batch)

    begun, later = _begun(chunk, numbers)
    count = chunk.active(begun)
    own, mine, both = first_state(state, count)
    batch, used = first_ues(chunk.batch(begun), count), share[:count]
    blended(own, mine, both, used)
    found = first_params(slopes, count)
    at_mixture = network.gradient(both, batch, Into(found, names))
    if how.adaptive:
        gaps = [torch.sub(mine[name], own[name], out=both[name]).mul_(found[name]).flatten(1).sum(1) for name in names]
    for name in names:
        mine[name].addcmul_(found[name], _wide(used, found[name]), value=-how.rate)
    if how.adaptive:
        share = (share - how.rate * torch.stack(gaps).sum(0)).clamp(0.0, 1.0)
    at_copy = moved(own, batch)
    all_taken(taken(chunk, ("mixed", how.rate), step, (*state, {_SHARE: share}), later))
    return share, at_copy, at_mixture


def enveloped(chunk: OwnChunk, how: Envelope, numbers: Sequence[int], start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Personal models [u, P], local ones near them, and the first losses [u]."""
    theta, near = chunk.walking(start), chunk.walking(start)
    first = envelop(chunk, how, numbers, (theta, near))
    return chunk.whole(theta, start), chunk.whole(near, start), first


def envelop(chunk: OwnChunk, how: Envelope, numbers: Sequence[int], models: Moving) -> Tensor:
    """The same of personal and local models in place; the first losses."""
    network, names, pull = chunk.network, chunk.network.names, how.rate * how.penalty

    def step(own: Params, close: Params, batch: Batch) -> Tensor:
        losses = []
        for _ in range(how.times):
            losses.append(network.gradient(own, batch, Into(own, names, beta=1 - pull, alpha=-how.rate)))
            for name in names:
                own[name].add_(close[name], alpha=pull)
        for name in names:
            close[name].lerp_(own[name], how.pace)
        return losses[0]

    first = all_taken(taken(chunk, ("enveloped", how), step, models, numbers))
    assert first is not None
    return first


def looked_ahead(
    chunk: OwnChunk, rates: tuple[float, float], numbers: Sequence[int], start: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`w <- w - outer grad f(w - inner grad f(w))`: where it ends [u, P], the first losses at `w` and after it."""
    point = chunk.walking(start)
    ahead = {name: torch.empty_like(own) for name, own in point.items()}
    before, after = look_ahead(chunk, rates, numbers, (point, ahead))
    return chunk.whole(point, start), before, after


def look_ahead(
    chunk: OwnChunk, rates: tuple[float, float], numbers: Sequence[int], models: Moving
) -> tuple[Tensor, Tensor]:
    """The same of a point in place, with room for what lies ahead of it: the first losses at both."""
    (inner, outer), network, names = rates, chunk.network, chunk.network.names

    def step(own: Params, adapted: Params, support: Batch, query: Batch) -> Tensor:
        for name in names:
            adapted[name].copy_(own[name])
        loss = network.gradient(own, support, Into(adapted, names, beta=1.0, alpha=-inner))
        after = network.gradient(adapted, query, Into(own, names, beta=1.0, alpha=-outer))
        return torch.stack([loss, after])

    roles = ("support", "query")
    first = all_taken(taken(chunk, ("looked ahead", rates), step, models, numbers, roles))
    assert first is not None
    return first[0], first[1]


def _begun(chunk: OwnChunk, numbers: Sequence[int]) -> tuple[int, list[int]]:
    """The first step that any UE takes, and those after it."""
    used = [number for number in numbers if chunk.active(number)]
    return used[0], used[1:]


def _wide(each: Tensor, part: Tensor) -> Tensor:
    return each.view(-1, *[1] * (part.ndim - 1))
