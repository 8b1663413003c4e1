"""The way of one round, simulated or real: observe, plan, execute, aggregate, broadcast, record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.broadcast import foreseen
from hpfl.planning.checking import checked_answer
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.planners import name_of
from hpfl.planning.problem import ARRIVED, Memory, Plan, Planner, RoundProblem
from hpfl.planning.rules import LARGEST
from hpfl.planning.spectrum import most_hz
from hpfl.privacy.ledger import Ledger
from hpfl.rng import Streams
from hpfl.training.cloud_step import CloudSettings, DivergedError, hearers, pose, remembered, step
from hpfl.training.evaluation_summary import EvaluationSummary, summary_columns
from hpfl.training.present_edges import nobody, over_all, without_absent
from hpfl.training.record import RoundRecord
from hpfl.training.scene import scene_of
from hpfl.training.sketch import Projection
from hpfl.training.state import Executor, Heard, Observation, Outcome, TrainState
from hpfl.training.step_coding import StepEntries
from hpfl.training.update_fates import chronicle

AfterRound = Callable[[TrainState, RoundRecord], bool]
"""Told after every round; answers whether to go on."""

Evaluate = Callable[[TrainState], EvaluationSummary | None]
"""Measures the model of a state, with what the UEs keep, or declines."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Who plays the round, and by which names its record tells of evaluations."""

    executor: Executor
    planner: Planner
    evaluate: Evaluate
    streams: Streams
    stopwatch: Callable[[], float]
    columns: tuple[str, ...] = summary_columns()
    projection: Projection | None = None  # for sketches of what arrives, where the planner learns from them
    ledger: Ledger | None = None  # of what leaves the cells, where they are private


def train(state: TrainState, parts: Parts, settings: CloudSettings, watch: AfterRound) -> TrainState:
    """Play rounds until there have been `settings.rounds`, `watch` says stop, or one could exceed the budget."""
    while state.round < settings.rounds and not is_spent(state, parts.ledger):
        state, record = play_round(state, parts, settings)
        if not watch(state, record):
            break
    return state


def play_round(state: TrainState, parts: Parts, settings: CloudSettings) -> tuple[TrainState, RoundRecord]:
    """One cloud round `t` (paper, Algorithm 3, as corrected in docs/errata.md)."""
    before, observation, ledger = state, parts.executor.observe(state), parts.ledger
    if observation.base_round is not None:
        state = state.but(base_round=observation.base_round)

    plan, memory, planning_s = _planned(state, parts, pose(state, observation, settings), observation.active)
    if observation.downlink is not None:
        told = hearers(plan.scheduled, plan, settings)
        told = told if observation.active is None else told | ~observation.active
        plan = foreseen(plan, observation.downlink, told, settings.bandwidth_hz)

    outcome = parts.executor.execute(state, observation, plan)

    aggregated = _mask(len(state.base_round), outcome)
    taken = step(state, outcome.arrivals, settings, scale=plan.step_scale, codings=_codings(plan))
    played = state.but(
        round=state.round + 1,
        time_s=state.time_s + observation.spent_s + outcome.latency_s,
        params=taken.params,
        pending=observation.pending if outcome.pending is None else outcome.pending,
        awaiting=np.zeros_like(state.awaiting),
        importance=observation.importance if outcome.importance is None else outcome.importance,
        joules=state.joules + _joules(observation, outcome),
        memory=_learning(
            remembered(memory, plan, taken.shares), outcome, (state.params - taken.params) / settings.outer_lr, parts
        ),
        clock=outcome.clock,
        kept={**_newest(state.kept, observation.kept, outcome.kept), **taken.kept},
        cloud_rule=taken.rule,
        edge_rules=_newest(state.edge_rules, observation.edge_rules, outcome.edge_rules),
        privacy=state.privacy if ledger is None else ledger.added(state.privacy, observation.releases),
    )
    told = hearers(aggregated, plan, settings) | _or_none(outcome.fresh, aggregated)
    heard = parts.executor.broadcast(played, told, observation, taken)
    after = _later(heard)

    evaluation = parts.evaluate(after)
    marks = chronicle(before, heard, observation, outcome, told & ~aggregated)
    marks["shares"] = tuple(taken.shares.values())
    marks["scene"] = scene_of(state, observation, plan, heard)
    marks["epsilon"] = None if ledger is None else ledger.epsilon(after.privacy)
    shown = dict.fromkeys(parts.columns) | dict(evaluation or {})
    return after, _record(heard, observation, plan, outcome, {"planning_s": planning_s, **marks, "evaluation": shown})


def is_spent(state: TrainState, ledger: Ledger | None) -> bool:
    """Whether the next round could exceed the budget of privacy."""
    return ledger is not None and ledger.is_over(state.privacy, state.awaiting)


def _planned(
    state: TrainState, parts: Parts, problem: RoundProblem, active: BoolArray | None
) -> tuple[Plan, Memory, float]:
    """The planner's plan for the edges that are there, checked, its memory, and its own seconds; nobody, no plan."""
    if active is not None and not active.any():
        return nobody(problem.num_edges), state.memory, 0.0
    present = without_absent(problem, active)
    stream = parts.streams.at("planning", state.round)
    began = parts.stopwatch()
    try:
        answer = parts.planner(present, state.memory, stream)
    except ConvergenceError as error:
        largest = float(present.importance.max())
        if largest <= LARGEST:
            raise
        raise DivergedError(f"an edge's update has a squared norm of {largest:g}; lower the learning rate") from error
    planning_s = parts.stopwatch() - began
    who = f"round {state.round + 1}: planner {name_of(parts.planner)}"
    plan, memory = checked_answer(answer, present, who)
    return over_all(plan, active), memory, planning_s


def received(state: TrainState, edges: BoolArray) -> TrainState:
    """The books after a broadcast: `edges` hold the current model and await its computation."""
    return state.but(base_round=np.where(edges, state.round, state.base_round), awaiting=edges)


def _later(heard: Heard) -> TrainState:
    """The state at the end of its broadcast."""
    state = heard.state
    joules = state.joules if heard.joules is None else state.joules + heard.joules
    return state.but(time_s=state.time_s + heard.seconds, joules=joules)


def _codings(plan: Plan) -> StepEntries:
    return StepEntries(plan.coding, plan.coding if plan.step_coding is None else plan.step_coding)


def _learning(memory: Memory, outcome: Outcome, moved: torch.Tensor, parts: Parts) -> Memory:
    """The planner's memory with sketches of what arrived, and of how the model `moved` (over beta), where wanted.

    The cloud makes them itself, so they cost nothing on the air.
    """
    sketch = parts.projection
    if sketch is None:
        return memory
    own = {str(one.member): sketch(one.update).tolist() for one in outcome.arrivals}
    return {**memory, ARRIVED: {"updates": own, "moved": sketch(moved).tolist()}}


def _joules(observation: Observation, outcome: Outcome) -> FloatArray:
    return outcome.joules if observation.spent_j is None else observation.spent_j + outcome.joules


def _mask(num_edges: int, outcome: Outcome) -> BoolArray:
    mask = np.zeros(num_edges, dtype=np.bool_)
    mask[[update.member for update in outcome.arrivals]] = True
    return mask


def _newest(*found: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return [one for one in found if one is not None][-1]


def _or_none(mask: BoolArray | None, like: BoolArray) -> BoolArray:
    return np.zeros_like(like) if mask is None else mask


def _record(
    heard: Heard, observation: Observation, plan: Plan, outcome: Outcome, more: Mapping[str, Any]
) -> RoundRecord:
    state, this_round = _later(heard), heard.state.round - 1
    listening_j = 0.0 if heard.joules is None else float(heard.joules.sum())
    staleness = tuple(this_round - update.base_round for update in outcome.arrivals)
    return RoundRecord(
        round=state.round,
        time_s=state.time_s,
        latency_s=observation.spent_s + outcome.latency_s + heard.seconds,
        num_scheduled=int(plan.scheduled.sum()),
        scheduled=tuple(np.flatnonzero(plan.scheduled).tolist()),
        num_aggregated=len(outcome.arrivals),
        aggregated=tuple(update.member for update in outcome.arrivals),
        staleness=staleness,
        max_staleness=max(staleness, default=0),
        mean_staleness=float(np.mean(staleness)) if staleness else 0.0,
        importance=float(sum(update.importance for update in outcome.arrivals)),
        bandwidth_used_hz=most_hz(observation.links, plan),
        uplink_bits=observation.spent_bits + outcome.uplink_bits,
        energy_j=float(_joules(observation, outcome).sum()) + listening_j,
        objective=plan.objective,
        lower_bound=plan.lower_bound,
        relative_gap=plan.relative_gap,
        step_scale=plan.step_scale,
        noise_scale=plan.noise_scale,
        num_participants=observation.links.members.size,
        num_lost=observation.num_lost + outcome.num_lost,
        broadcast_s=heard.seconds,
        downlink_bits=heard.bits,
        downlink_j=heard.downlink_j,
        num_missed=heard.num_missed,
        cells_below_threshold=observation.num_below + outcome.num_below,
        num_scaled_down=observation.num_scaled,
        num_anew=observation.num_anew,
        **more,
    )
