"""Planners to compare with: everybody, a random set, and SHPFL's random set with the same Hz for every link."""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_plans import checked, plan_for_set, plan_with_bandwidth
from hpfl.planning.spectrum import Switch
from hpfl.rng import Stream


def full(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """Every edge that can finish, whatever the cap, with exact bandwidth (P4); a plan beyond the cap says so."""
    everybody = checked(problem, problem.must | problem.able)
    return plan_for_set(problem, everybody, "full", whatever_the_cap=True), memory


def random(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """A random set with exact bandwidth (P4)."""
    return plan_for_set(problem, random_set(problem, stream), "random"), memory


def shpfl(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """SHPFL: a random set and the same bandwidth for every link of it, both ways; in phases, for all of one phase."""
    scheduled = random_set(problem, stream)
    switch: Switch = "one" if problem.spectrum == "phased" else None
    bandwidth_hz = equal_split(problem, scheduled)
    return plan_with_bandwidth(problem, scheduled, bandwidth_hz, planner="shpfl", switch=switch), memory


def random_set(problem: RoundProblem, stream: Stream) -> BoolArray:
    """Every edge at the staleness bound, and others that can finish, drawn until there are `max_edges`."""
    order = stream.permutation(problem.num_edges)
    drawn = order[~problem.must[order] & problem.able[order]]
    scheduled = problem.must.copy()
    scheduled[drawn[: problem.most_edges - int(problem.must.sum())]] = True
    return checked(problem, scheduled)


def equal_split(problem: RoundProblem, scheduled: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The same Hz for every link of the scheduled edges that still has bits to send: UEs', backhauls'.

    Where the band is shared anew in each phase, the same for all UEs, then the same for all backhauls.
    """
    ue_on = scheduled[problem.edge_of_ue] & (problem.ue_bits > 0)
    edge_on = scheduled & (problem.edge_bits > 0)
    ues, edges = int(ue_on.sum()), int(edge_on.sum())
    ue_hz, edge_hz = (
        problem.bandwidth_hz / max(count, 1) * (1.0 - 1e-12)
        for count in ((ues, edges) if problem.spectrum == "phased" else (ues + edges, ues + edges))
    )
    return np.where(ue_on, ue_hz, 0.0), np.where(edge_on, edge_hz, 0.0)
