"""The way of one round, simulated or real: observe, plan, execute, aggregate, broadcast, record."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.planning.planners import Planner
from hpfl.planning.problem import Plan
from hpfl.rng import Streams
from hpfl.training.cloud import CloudSettings, hearers, pose, step
from hpfl.training.record import EvaluationSummary, RoundRecord
from hpfl.training.state import Executor, Observation, Outcome, TrainState

BoolArray = NDArray[np.bool_]

Watcher = Callable[[TrainState, RoundRecord], bool]
"""Told after every round; answers whether to go on."""

Evaluate = Callable[[torch.Tensor, int], EvaluationSummary | None]
"""Measures a model after a round, or declines."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Who plays the round."""

    executor: Executor
    planner: Planner
    evaluate: Evaluate
    streams: Streams
    stopwatch: Callable[[], float]


def train(state: TrainState, parts: Parts, settings: CloudSettings, watch: Watcher) -> TrainState:
    """Play rounds until there have been `settings.rounds`, or the watcher says stop."""
    while state.round < settings.rounds:
        state, record = play_round(state, parts, settings)
        if not watch(state, record):
            break
    return state


def play_round(state: TrainState, parts: Parts, settings: CloudSettings) -> tuple[TrainState, RoundRecord]:
    """One cloud round `t` (paper, Algorithm 3, as corrected in docs/errata.md)."""
    observation = parts.executor.observe(state)

    problem = pose(state, observation, settings)
    began = parts.stopwatch()
    plan, memory = parts.planner(problem, state.memory, parts.streams.at("planning", state.round))
    planning_s = parts.stopwatch() - began

    outcome = parts.executor.execute(state, observation, plan)

    params = step(state.params, outcome.arrivals, settings)
    aggregated = _mask(len(state.base_round), outcome)
    played = state.but(
        round=state.round + 1,
        time_s=state.time_s + observation.spent_s + outcome.latency_s,
        params=params,
        pending=observation.pending,
        awaiting=np.zeros_like(state.awaiting),
        importance=observation.importance,
        joules=state.joules + outcome.joules,
        memory=memory,
        clock=outcome.clock,
    )
    after = parts.executor.broadcast(played, hearers(aggregated, settings))

    evaluation = parts.evaluate(after.params, after.round)
    return after, _record(after, observation, plan, outcome, (planning_s, evaluation))


def received(state: TrainState, edges: BoolArray) -> TrainState:
    """The books after a broadcast: `edges` hold the current model and await its computation."""
    return state.but(base_round=np.where(edges, state.round, state.base_round), awaiting=edges)


def _mask(num_edges: int, outcome: Outcome) -> BoolArray:
    mask = np.zeros(num_edges, dtype=np.bool_)
    mask[[update.member for update in outcome.arrivals]] = True
    return mask


def _record(
    state: TrainState,
    observation: Observation,
    plan: Plan,
    outcome: Outcome,
    measured: tuple[float, EvaluationSummary | None],
) -> RoundRecord:
    planning_s, evaluation = measured
    this_round = state.round - 1
    staleness = [this_round - update.base_round for update in outcome.arrivals]
    return RoundRecord(
        round=state.round,
        time_s=state.time_s,
        latency_s=observation.spent_s + outcome.latency_s,
        num_scheduled=int(plan.scheduled.sum()),
        scheduled=tuple(int(edge) for edge in np.flatnonzero(plan.scheduled)),
        num_aggregated=len(outcome.arrivals),
        max_staleness=max(staleness, default=0),
        mean_staleness=float(np.mean(staleness)) if staleness else 0.0,
        importance=float(sum(update.importance for update in outcome.arrivals)),
        bandwidth_used_hz=float(plan.ue_bandwidth_hz.sum() + plan.edge_bandwidth_hz.sum()),
        uplink_bits=outcome.uplink_bits,
        energy_j=float(outcome.joules.sum()),
        planning_s=planning_s,
        objective=plan.objective,
        lower_bound=plan.lower_bound,
        relative_gap=plan.relative_gap,
        **({} if evaluation is None else vars(evaluation)),
    )
