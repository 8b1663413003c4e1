"""What the robust rules share: the updates that are finite, looked at in columns that fit a cache, and sums of them."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.training.combine import Combined, CombineError, Contribution, RuleState

_AT_ONCE = 1 << 20
"""Numbers of all updates that are looked at together: beside the updates themselves, a rule needs a few times these."""

P = ParamSpec("P")
Rule = Callable[Concatenate[Sequence[Contribution], RuleState, P], Combined]


def of_finite(rule: Rule[P]) -> Rule[P]:
    """The rule among the updates whose numbers are all finite; any other has share 0. Without one there is no step."""

    @wraps(rule)
    def guarded(
        contributions: Sequence[Contribution], state: RuleState, /, *args: P.args, **kwargs: P.kwargs
    ) -> Combined:
        sound = [at for at, one in enumerate(contributions) if bool(torch.isfinite(one.update).all())]
        if not sound:
            raise CombineError(f"none of {len(contributions)} updates is finite; {rule.__name__} has nothing to join")
        found = rule([contributions[at] for at in sound], state, *args, **kwargs)
        shares = np.zeros(len(contributions))
        shares[sound] = found.shares
        return Combined(found.direction, shares, found.state, found.is_mean and len(sound) == len(contributions))

    return guarded


def columns(contributions: Sequence[Contribution]) -> Iterator[tuple[slice, Tensor]]:
    """Stretches of coordinates, and the updates in them, a row for each coordinate: [c, n]."""
    rows = [one.update for one in contributions]
    width = max(_AT_ONCE // len(rows), 1)
    for first in range(0, rows[0].numel(), width):
        part = slice(first, min(first + width, rows[0].numel()))
        yield part, torch.stack([row[part] for row in rows], dim=1)


def summed(contributions: Sequence[Contribution], factors: FloatArray) -> Tensor:
    """`sum_i factor_i u_i` in float64, added in the order given; what has factor 0 is not looked at."""
    total = torch.zeros_like(contributions[0].update, dtype=torch.float64)
    term = torch.empty_like(total)
    for one, factor in zip(contributions, factors.tolist(), strict=True):
        if factor:
            term.copy_(one.update)
            total += term.mul_(factor)  # two roundings, no FMA: anyone can redo it
    return total


def distances(contributions: Sequence[Contribution], centre: Tensor | None = None) -> FloatArray:
    """How far each update is from a point [P], in float64 (None: from 0)."""
    found = np.empty(len(contributions))
    for at, one in enumerate(contributions):
        own = one.update.to(torch.float64)
        found[at] = float(torch.linalg.vector_norm(own if centre is None else own - centre))
    return found


def even_shares(contributions: Sequence[Contribution]) -> FloatArray:
    """The same share for each."""
    return np.full(len(contributions), 1.0 / len(contributions))


def shares_by_weight(contributions: Sequence[Contribution]) -> FloatArray:
    """Each one's weight over the sum of weights."""
    weights = np.array([one.weight for one in contributions], dtype=np.float64)
    return np.asarray(weights / weights.sum())
