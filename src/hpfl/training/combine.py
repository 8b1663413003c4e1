"""Combine rules: from updates that came, of UEs at an edge or edges at the cloud, to one step and the share of each.

A rule is a function of the contributions and of the state it left behind the last time, a mapping of tensors, arrays
and plain values (empty at first). It may bring options. Give one a name with `@COMBINES.register("trimmed")`. Rules
that a poisoned few cannot move are in `rules/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from hpfl.arrays import FloatArray
from hpfl.registry import Registry, part

RuleState = Mapping[str, Any]
"""What a rule remembers: tensors, arrays and what JSON can hold, by name."""

_ROUNDING = 1e-9


class CombineError(ValueError):
    """A rule's answer that is none."""


@dataclass(frozen=True)
class Contribution:
    """One member's update [P], its weight, and how many rounds ago its model was made (0 at the edge tier)."""

    member: int
    update: torch.Tensor
    weight: float
    age: int = 0


@dataclass(frozen=True)
class Combined:
    """The step direction [P] in float64, each contribution's share in it in the order given, and the rule's new state.

    Shares add up to 1 at most; an update that the rule leaves out has share 0. Where `is_mean`, the rule has changed
    nothing: a simulated edge then computes the mean as it does without a rule, so that bits are the same.
    """

    direction: torch.Tensor
    shares: FloatArray
    state: RuleState = field(default_factory=dict)
    is_mean: bool = False


class Combine(Protocol):
    """A rule, bound to its options. It is called with at least one contribution, in the order of the members."""

    def __call__(self, contributions: Sequence[Contribution], state: RuleState, /) -> Combined:
        """Join what came."""
        ...


_HERE = "hpfl.training"
COMBINES: Registry[Combine] = Registry(
    "combine",
    traits={"streams": False, "weighs": True, "needs": None},
    shipped={
        "mean": f"{_HERE}.combine:weighted_mean",
        "median": f"{_HERE}.rules.median:coordinate_median",
        "trimmed-mean": f"{_HERE}.rules.trimmed_mean:trimmed_mean",
        "krum": f"{_HERE}.rules.krum:krum",
        "multi-krum": f"{_HERE}.rules.krum:multi_krum",
        "geometric-median": f"{_HERE}.rules.geometric_median:geometric_median",
        "centred-clipping": f"{_HERE}.rules.centred_clipping:centred_clipping",
        "norm-bounding": f"{_HERE}.rules.norm_bounding:norm_bounding",
        "adaptive-bound": f"{_HERE}.rules.adaptive_bound:adaptive_bound",
    },
    called=("contributions", "state"),
)
"""A rule that `streams` is the mean by the weights given, for which an edge adds updates up one by one. One that does
not `weigh` counts every update once, and is refused where members are weighed by samples. `needs`, a function of its
options, is how many updates it takes at least; where fewer can come, a run is refused."""


@part(streams=True)
def weighted_mean(contributions: Sequence[Contribution], state: RuleState) -> Combined:
    """The mean by weight, `sum_k n_k u_k / sum_k n_k` in float64, added in the order given."""
    total = sum(one.weight for one in contributions)
    shares = np.array([one.weight / total for one in contributions])
    mean = torch.zeros_like(contributions[0].update, dtype=torch.float64)
    term = torch.empty_like(mean)
    for one, share in zip(contributions, shares.tolist(), strict=True):
        term.copy_(one.update)
        mean += term.mul_(share)  # two roundings, no FMA: anyone can redo it
    return Combined(mean, shares, state)


def combined(rule: Combine, contributions: Sequence[Contribution], state: RuleState) -> Combined:
    """What a rule makes of contributions in whatever order they came, checked; shares are in the order they came."""
    order = np.argsort([one.member for one in contributions], kind="stable")
    found = rule([contributions[at] for at in order.tolist()], state)
    _check(found, contributions, getattr(rule, "func", rule))
    shares = np.empty(order.size)
    shares[order] = found.shares
    return Combined(found.direction, shares, found.state, found.is_mean)


def _check(found: Combined, contributions: Sequence[Contribution], rule: Any) -> None:
    who, length = f"combine rule {getattr(rule, '__qualname__', rule)}", contributions[0].update.numel()
    if not isinstance(found, Combined):
        raise CombineError(f"{who} returned {type(found).__name__}; wanted hpfl.training.Combined")
    if found.direction.shape != (length,) or found.direction.dtype != torch.float64:
        came = f"{found.direction.dtype} of shape {tuple(found.direction.shape)}"
        raise CombineError(f"{who}: the direction is {came}; wanted torch.float64 of shape ({length},)")
    shares = np.asarray(found.shares)
    if shares.shape != (len(contributions),):
        raise CombineError(f"{who}: shares have shape {shares.shape}; wanted one for each of {len(contributions)}")
    if not float(shares.sum()) <= 1 + _ROUNDING or not np.isfinite(shares).all():
        raise CombineError(f"{who}: shares add up to {shares.sum():g}; wanted at most 1")
    if not isinstance(found.state, Mapping):
        raise CombineError(f"{who}: the state is {type(found.state).__name__}; wanted a mapping")
