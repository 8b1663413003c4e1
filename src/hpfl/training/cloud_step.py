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
from hpfl.training.step_coding import CLOUD_CODEC, SentStep, StepCoding, StepEntries


class DivergedError(ArithmeticError):
    """The model would take a value that is not a finite number."""


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """The constants of the cloud's round (paper, sections 3.3 and 4).

    `step_coding` is how its step travels down; None: as the model it leads to.
    """

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
    step_coding: StepCoding | None = None
    steady: bool = True


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
        codings=observation.codings,
        overhead_s=observation.spent_s,
        renewal_s=observation.renewal_s,
        spectrum=settings.spectrum,
        downlink=observation.downlink,
        steady=settings.steady,
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
    """The model after a round, each arrived edge's share in the step by its number, and what the rule remembers.

    `bits` is what the step takes on the way down (infinite: no less than the model), `kept` what the cloud's codec
    keeps (None: as before), `sent` the step as it travels.
    """

    params: torch.Tensor
    shares: Mapping[int, float]
    rule: RuleState
    bits: float = math.inf
    sent: SentStep | None = None

    @property
    def kept(self) -> Mapping[str, torch.Tensor]:
        """What the cloud's codec keeps now, by name; empty where it keeps nothing, or coded nothing."""
        row = None if self.sent is None else self.sent.kept
        return {} if row is None else {CLOUD_CODEC: row}


def step(
    state: TrainState,
    arrivals: Sequence[EdgeUpdate],
    settings: CloudSettings,
    *,
    scale: float = 1.0,
    codings: StepEntries = StepEntries(),  # noqa: B008  it is a constant
) -> Step:
    """`w_{t+1} = w_t - scale beta d` with `d` the mean of the `u_k` that arrived (global update, section 3.3).

    Another combine rule takes another `d`. The model is rounded once; without an update there is no step. Where steps
    travel coded, by entries `codings` of the menu, the model moves by what receivers decode.
    """
    if not arrivals:
        return Step(state.params, {}, state.cloud_rule, 0.0)
    updates = discounted(arrivals, this_round=state.round, settings=settings)
    came = [Contribution(one.member, one.update, one.weight, state.round - one.base_round) for one in updates]
    joined = combined(settings.combine, came, state.cloud_rule)
    shares = joined.shares.tolist()
    if settings.staleness_discount:
        shares = [share * _discount(one, state.round, settings) for share, one in zip(shares, arrivals, strict=True)]
    by_member = {one.member: share for one, share in zip(arrivals, shares, strict=True)}
    rate = scale * settings.outer_lr
    if rate == 0.0:
        return Step(state.params, by_member, joined.state, 0.0)
    factors = [(rate * by_member[one.member], one.update) for one in sorted(arrivals, key=lambda one: one.member)]
    sent = _sent(state, settings.step_coding, factors, rate * joined.direction, codings)
    if sent is None:
        moved = (state.params.to(torch.float64) - rate * joined.direction).to(state.params.dtype)
    else:
        moved = sent.taken_by(state.params)
    bits = math.inf if sent is None else sent.bits
    return Step(_finite(moved, came), by_member, joined.state, bits, sent)


def _sent(
    state: TrainState,
    coding: StepCoding | None,
    factors: Sequence[tuple[float, torch.Tensor]],
    vector: torch.Tensor,
    entries: StepEntries,
) -> SentStep | None:
    """The step as it travels; None: as the model."""
    if coding is None or not bool(torch.isfinite(vector).all()):
        return None
    own = state.kept.get(CLOUD_CODEC)
    kept = own if isinstance(own, torch.Tensor) else None
    return coding.sent(factors, vector.to(state.params.dtype), kept, codings=entries, this_round=state.round)


def _finite(moved: torch.Tensor, came: Sequence[Contribution]) -> torch.Tensor:
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
