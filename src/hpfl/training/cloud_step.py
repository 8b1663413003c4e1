"""What the cloud does in a round: pose the planning problem, join the updates that arrived, choose who hears of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from hpfl.arrays import BoolArray
from hpfl.planning.problem import APPLIED, Memory, Plan, RoundProblem, Spectrum
from hpfl.training.combine import Combine, Contribution, RuleState, combined, weighted_mean
from hpfl.training.state import EdgeUpdate, Observation, TrainState


class DivergedError(ArithmeticError):
    """The model would take a value that is not a finite number."""


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """The constants of the cloud's round (paper, sections 3.3 and 4)."""

    rounds: int
    outer_lr: float
    bandwidth_hz: float
    rho: float
    phi: float
    max_edges: int
    staleness_bound: int
    broadcast: Literal["auto", "scheduled", "all"] = "scheduled"
    trigger: Literal["scheduled", "first"] = "scheduled"
    combine: Combine = weighted_mean
    staleness_discount: float = 0.0
    spectrum: Spectrum = "fixed"


def pose(state: TrainState, observation: Observation, settings: CloudSettings) -> RoundProblem:
    """Everything a planner may know of this round; with trigger `first` every edge must be given bandwidth."""
    everybody = settings.trigger == "first"
    return RoundProblem(
        bandwidth_hz=settings.bandwidth_hz,
        rho=settings.rho,
        phi=settings.phi,
        max_edges=len(state.base_round) if everybody else settings.max_edges,
        staleness_bound=0 if everybody else settings.staleness_bound,
        links=observation.links,
        importance=observation.importance,
        staleness=state.staleness,
        sketches=observation.sketches,
        overhead_s=observation.spent_s,
        renewal_s=observation.renewal_s,
        spectrum=settings.spectrum,
        trusted=True,
    )


def discounted(updates: Sequence[EdgeUpdate], *, this_round: int, settings: CloudSettings) -> tuple[EdgeUpdate, ...]:
    """The updates, one of age `tau` multiplied by `(1 + tau)^-a` with `a = staleness_discount` (FedAsync, 2019).

    A step that answers a gradient `tau` rounds old is stable only while `beta L tau` stays below about pi / 2; with
    `a = 1` the product no longer grows with `tau`.
    """
    if not settings.staleness_discount:
        return tuple(updates)
    factors = [_discount(update, this_round, settings) for update in updates]
    return tuple(
        replace(update, update=update.update * factor) for update, factor in zip(updates, factors, strict=True)
    )


def _discount(update: EdgeUpdate, this_round: int, settings: CloudSettings) -> float:
    return float((1.0 + this_round - update.base_round) ** -settings.staleness_discount)


def remembered(memory: Memory, plan: Plan, shares: Mapping[int, float]) -> Memory:
    """The planner's memory, with each edge's share in the step where that is not the plain mean of the plan's set.

    Edges fail or come too late, others come first, weigh more, are discounted for their age, or are left out by the
    combine rule.
    """
    chosen = np.flatnonzero(plan.scheduled).tolist()
    taken = {str(member): shares[member] for member in sorted(shares)}
    intended = dict.fromkeys(map(str, chosen), 1.0 / max(len(chosen), 1))
    near = taken.keys() == intended.keys() and all(math.isclose(taken[k], intended[k]) for k in taken)
    if not chosen:
        return memory
    plain = {key: value for key, value in memory.items() if key != APPLIED}
    return plain if near else {**plain, APPLIED: taken}


@dataclass(frozen=True)
class Step:
    """The model after a round, each arrived edge's share in the step by its number, and what the rule remembers."""

    params: torch.Tensor
    shares: Mapping[int, float]
    rule: RuleState


def step(state: TrainState, arrivals: Sequence[EdgeUpdate], settings: CloudSettings, *, scale: float = 1.0) -> Step:
    """`w_{t+1} = w_t - scale beta d` with `d` the mean of the `u_k` that arrived (global update, section 3.3).

    Another combine rule takes another `d`. The model is rounded once; without an update there is no step.
    """
    if not arrivals:
        return Step(state.params, {}, state.cloud_rule)
    updates = discounted(arrivals, this_round=state.round, settings=settings)
    came = [Contribution(one.member, one.update, one.weight, state.round - one.base_round) for one in updates]
    joined = combined(settings.combine, came, state.cloud_rule)
    shares = joined.shares.tolist()
    if settings.staleness_discount:
        shares = [share * _discount(one, state.round, settings) for share, one in zip(shares, arrivals, strict=True)]
    moved = _moved(state.params, joined.direction, came, rate=scale * settings.outer_lr)
    return Step(moved, {one.member: share for one, share in zip(arrivals, shares, strict=True)}, joined.state)


def _moved(params: torch.Tensor, direction: torch.Tensor, came: Sequence[Contribution], *, rate: float) -> torch.Tensor:
    if rate == 0.0:
        return params
    moved = (params.to(torch.float64) - rate * direction).to(params.dtype)
    if not bool(torch.isfinite(moved).all()):
        members = [one.member for one in came]
        raise DivergedError(
            f"the update of edges {members} makes the model infinite or NaN; try a smaller learning rate"
        )
    return moved


def hearers(aggregated: BoolArray, plan: Plan, settings: CloudSettings) -> BoolArray:
    """The edges that receive the new model: the aggregated ones, or all (docs/errata.md, row 8).

    `broadcast = "auto"` leaves that to the plan; one that has no wish means the aggregated. A plan that leaves an
    aggregated edge alone must not call it before it has heard.
    """
    wish = plan.broadcast if settings.broadcast == "auto" else settings.broadcast
    if wish != "all":
        return aggregated
    chosen = plan.hears if settings.broadcast == "auto" else None
    return np.ones_like(aggregated) if chosen is None else chosen
