"""Planners to compare with: everybody, a random set, and SHPFL's random set with the same Hz for every link."""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import Allocation, finish_plan, realise
from hpfl.planning.bandwidth import allocate
from hpfl.planning.link_curve import LN2
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.rng import Stream


def full(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """Every edge that can finish, whatever the cap, with exact bandwidth (P4); a plan beyond the cap says so."""
    everybody = checked(problem, problem.must | problem.able)
    over = int(everybody.sum()) > problem.most_edges
    allocation = allocate(problem, everybody)
    return finish_plan(problem, allocation, "full", lower_bound=quick_bound(problem), exceeds_cap=over), memory


def random(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """A random set with exact bandwidth (P4)."""
    allocation = allocate(problem, random_set(problem, stream))
    return finish_plan(problem, allocation, "random", lower_bound=quick_bound(problem)), memory


def shpfl(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """SHPFL: a random set and the same bandwidth for every link of it, both ways."""
    scheduled = random_set(problem, stream)
    return plan_with_bandwidth(problem, scheduled, equal_split(problem, scheduled), planner="shpfl"), memory


def random_set(problem: RoundProblem, stream: Stream) -> BoolArray:
    """Every edge at the staleness bound, and others that can finish, drawn until there are `max_edges`."""
    order = stream.permutation(problem.num_edges)
    drawn = order[~problem.must[order] & problem.able[order]]
    scheduled = problem.must.copy()
    scheduled[drawn[: problem.most_edges - int(problem.must.sum())]] = True
    return checked(problem, scheduled)


def equal_split(problem: RoundProblem, scheduled: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The same Hz for every link of the scheduled edges that still has bits to send: UEs', backhauls'."""
    ue_on = scheduled[problem.edge_of_ue] & (problem.ue_bits > 0)
    edge_on = scheduled & (problem.edge_bits > 0)
    each_hz = problem.bandwidth_hz / max(int(ue_on.sum()) + int(edge_on.sum()), 1) * (1.0 - 1e-12)
    return np.where(ue_on, each_hz, 0.0), np.where(edge_on, each_hz, 0.0)


def plan_with_bandwidth(
    problem: RoundProblem, scheduled: BoolArray, bandwidth_hz: tuple[FloatArray, FloatArray], *, planner: str
) -> Plan:
    """The plan that gives UEs and backhauls `bandwidth_hz`, whatever rule it comes from: no multipliers."""
    ue_hz, edge_hz = bandwidth_hz
    allocation = Allocation(
        scheduled=scheduled,
        ue_bandwidth_hz=ue_hz,
        edge_bandwidth_hz=edge_hz,
        least_latency_s=0.0,
        relative_gap=1.0,
        price_s_per_hz=0.0,
        edge_weight=np.zeros(problem.num_edges),
        ue_weight=np.zeros(problem.num_ues),
        **vars(realise(problem, scheduled, ue_hz, edge_hz)),
    )
    return finish_plan(problem, allocation, planner, lower_bound=quick_bound(problem))


def checked(problem: RoundProblem, scheduled: BoolArray) -> BoolArray:
    """The set itself, if it is one that can finish its round; `InfeasibleError` otherwise."""
    if not scheduled.any():
        scheduled = ~scheduled  # nobody can finish: let the error name the first of all
    if (scheduled & ~problem.able).any():
        allocate(problem, scheduled)  # refuses, with the UE and its joules
    return scheduled


def quick_bound(problem: RoundProblem) -> float:
    """A lower bound of P2 in one pass: the most importance a plan can have, and the least latency of any edge.

    Loose, and cheap enough for the planners that others are measured against; `joint` has the tight one.
    """
    ue_end_s = np.where(problem.ue_bits > 0, problem.compute_s + problem.ue_bits * LN2 / problem.ue_snr_hz, 0.0)
    phase_s = np.zeros(problem.num_edges)
    np.maximum.at(phase_s, problem.edge_of_ue, ue_end_s)
    latency_s = phase_s + problem.edge_bits * LN2 / problem.edge_snr_hz
    must = problem.must
    least_s = latency_s[must].max() if must.any() else latency_s.min()
    seats = problem.most_edges - int(must.sum())
    most = problem.values[must].sum() + np.sort(problem.values[~must])[::-1][:seats].sum()
    return float((1.0 - problem.rho) * least_s - most)
