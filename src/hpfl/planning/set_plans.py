"""The plan of a given set of edges, with exact bandwidth or with bandwidth by a rule, and a bound in one pass."""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import finish_plan, realise
from hpfl.planning.bandwidth import allocate
from hpfl.planning.link_curve import LN2
from hpfl.planning.own_switches import with_own_switches
from hpfl.planning.problem import Allocation, Plan, RoundProblem
from hpfl.planning.spectrum import Switch


def plan_for_set(
    problem: RoundProblem,
    scheduled: BoolArray,
    planner: str,
    *,
    whatever_the_cap: bool = False,
    one_switch: bool = False,
) -> Plan:
    """The plan that lets a set upload with exact bandwidth (P4), its bound the quick one; `planner` is who chose it.

    Under spectrum `phased` its edges switch together, or at moments of their own where that is faster, unless only
    `one_switch` is looked for. A set larger
    than the cap and the staleness bound allow is refused later, unless it is meant: `whatever_the_cap`.
    """
    over = whatever_the_cap and int(scheduled.sum()) > problem.most_edges
    bound = quick_bound(problem)
    allocation = allocate(problem, scheduled)
    allocation = allocation if one_switch else over_time(problem, allocation)
    return finish_plan(problem, allocation, planner, lower_bound=bound, exceeds_cap=over)


def over_time(problem: RoundProblem, allocation: Allocation) -> Allocation:
    """An exact allocation, which under spectrum `phased` lets edges switch at their own moments if that is faster."""
    return allocation if problem.spectrum == "fixed" else with_own_switches(problem, allocation)


def plan_with_bandwidth(
    problem: RoundProblem,
    scheduled: BoolArray,
    bandwidth_hz: tuple[FloatArray, FloatArray],
    *,
    planner: str,
    switch: Switch = None,
) -> Plan:
    """The plan that gives UEs and backhauls `bandwidth_hz`, whatever rule it comes from: no multipliers.

    Where the problem's spectrum is `phased`, `switch` says when backhauls may begin; without one, Hz are constant.
    """
    ue_hz, edge_hz = bandwidth_hz
    allocation = Allocation(
        scheduled=scheduled,
        ue_bandwidth_hz=ue_hz,
        edge_bandwidth_hz=edge_hz,
        times=realise(problem, scheduled, ue_hz, edge_hz, switch=switch),
        certificate="fixed" if switch is None else "one switch",
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

    Loose, and cheap enough for the planners that others are measured against; `joint` has the tight one. No bandwidth
    over time beats it.
    """
    links = problem.links
    ue_end_s = np.where(links.ue_bits > 0, links.compute_s + links.ue_bits * LN2 / links.ue_snr_hz, 0.0)
    phase_s = np.zeros(links.num_edges)
    np.maximum.at(phase_s, links.edge_of_ue, ue_end_s)
    latency_s = phase_s + links.edge_bits * LN2 / links.edge_snr_hz
    must = problem.must
    least_s = latency_s[must].max() if must.any() else latency_s.min()
    seats = problem.most_edges - int(must.sum())
    most = problem.values[must].sum() + np.sort(problem.values[~must])[::-1][:seats].sum()
    return float((1.0 - problem.rho) * least_s - most)
