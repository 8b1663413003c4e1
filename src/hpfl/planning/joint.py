"""Planner `joint`: the set and its bandwidth together (problem P2), with a bound no plan can beat."""

from dataclasses import replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import finish_plan
from hpfl.planning.bandwidth import allocate
from hpfl.planning.deadline import starting_logit, starting_work
from hpfl.planning.demand import best_split
from hpfl.planning.load import load_of
from hpfl.planning.problem import Allocation, Memory, Plan, RoundProblem
from hpfl.planning.search import SearchResult, solve
from hpfl.planning.set_choice import SetChoice, task_of
from hpfl.planning.set_plans import over_time
from hpfl.rng import Stream


def joint_plan(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """The plan of least objective: exact for up to 20 edges, beyond with the gap it reports.

    Under spectrum `phased` that is the best with one switch, made faster by edges that switch at their own moments.
    """
    found = joint(problem)
    allocation = over_time(problem, found.allocation)
    return finish_plan(problem, allocation, "joint", lower_bound=found.lower_bound, covers="one switch"), memory


def joint(problem: RoundProblem) -> SearchResult:
    """The best set of P2 with its allocation; at `rho = 1` the most important set, and of those the fastest."""
    task = task_of(problem)
    if problem.rho < 1.0:
        return solve(task)
    allocation = _most_important(task)
    objective = problem.objective(allocation.scheduled, allocation.round_latency_s)
    return SearchResult(allocation, objective, objective)


def _most_important(task: SetChoice) -> Allocation:
    """The fastest of the sets of greatest value: edges tied for the last places are chosen by what they need.

    At a deadline `O` the fastest choice among edges of one value is those of least `D_k(O)`. Choosing by the need at
    the current set's `O` gives a set that needs no more at that `O`, so it finishes no later; when nothing changes, no
    choice finishes earlier.
    """
    seats = task.most - int(task.must.sum())
    ranked = np.sort(task.values[task.allowed & ~task.must])[::-1]
    last = max(ranked[seats - 1], 0.0) if seats else np.inf
    surely = task.must | (task.allowed & (task.values > last))
    tied = task.allowed & ~surely & (task.values == last)
    seats = task.most - int(surely.sum()) if last > 0 else max(0, 1 - int(surely.sum()))
    if task.problem.spectrum == "phased":
        return _fastest_with(task, surely, tied, seats)
    chosen = surely | _least(tied, seats, np.zeros(tied.size))
    allocation = allocate(task.problem, chosen)
    while tied.sum() > seats > 0:
        need_hz = _needs(task.problem, task.allowed, allocation.round_latency_s)
        chosen = surely | _least(tied, seats, need_hz)
        faster = allocate(task.problem, chosen)
        if faster.round_latency_s >= allocation.round_latency_s * (1.0 - 1e-11):
            break
        allocation = faster
    return allocation


def _fastest_with(task: SetChoice, surely: BoolArray, tied: BoolArray, seats: int) -> Allocation:
    """The fastest set of `surely` and so many tied edges, by the search: with two hops no one need ranks them."""
    size = int(surely.sum()) + seats
    ranked = replace(
        task, values=np.zeros(tied.size), latency_weight=1.0, must=surely, allowed=surely | tied, least=size, most=size
    )
    return solve(ranked).allocation


def _least(tied: BoolArray, seats: int, need_hz: FloatArray) -> BoolArray:
    """The `seats` tied edges of least need."""
    chosen = np.zeros_like(tied)
    chosen[np.argsort(np.where(tied, need_hz, np.inf), kind="stable")[:seats]] = True
    return chosen


def _needs(problem: RoundProblem, allowed: BoolArray, latency_s: float) -> FloatArray:
    """Every edge's least Hz `D_k(O)` to finish by `latency_s`; infinite where it cannot."""
    load = load_of(problem, allowed)
    slack_s = latency_s - load.least_s
    possible = slack_s > 0
    slack_s = np.where(possible, slack_s, latency_s)
    logit = starting_logit(load, starting_work(load, problem.bandwidth_hz), slack_s)
    split = best_split(load, slack_s, logit)
    need_hz = np.where(allowed, 0.0, np.inf)
    need_hz[load.edges] = np.where(possible, split.hz, np.inf)
    return need_hz
