"""The weights by which FedALA's UEs mix two models, learnt by all UEs of a chunk at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.own.chunk import OwnChunk
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.recorded_steps import Moving, all_taken, taken


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
    learn(chunk, how, numbers, (point, own, far, slopes, held), learnt == 0)
    return torch.cat([held[name].flatten(1) for name in how.names], 1)


def learn(chunk: OwnChunk, how: Learning, numbers: Sequence[int], state: Moving, fresh: Tensor) -> None:
    """The same in place: mixtures, own parameters, gaps to the shared ones, room for slopes, and the weights."""
    held = state[4]

    def step(at: Params, mine: Params, gaps: Params, found: Params, shares: Params, batch: Batch) -> Tensor:
        for name in how.names:
            torch.addcmul(mine[name], gaps[name], shares[name], out=at[name])
        loss = chunk.network.gradient(at, batch, Into(found, frozenset(how.names)))
        for name in how.names:
            shares[name].addcmul_(gaps[name], found[name], value=-how.rate).clamp_(0.0, 1.0)
        return loss

    for number in range(how.first_passes if bool(fresh.any()) else 1):
        before = {name: part.clone() for name, part in held.items()} if number else held
        all_taken(taken(chunk, ("learnt", how), step, state, numbers))
        for name, part in held.items() if number else ():
            part.copy_(torch.where(_like(fresh, part), part, before[name]))


def _some(params: Params, names: Sequence[str]) -> Params:
    return {name: params[name] for name in names}


def _like(mask: Tensor, part: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (part.ndim - 1))
