"""Bandwidth for a given set of edges (problem P4), exactly: the shortest round, its multipliers and a certified gap.

At the optimum all scheduled edges finish at one time `O`, inside each edge all UEs finish together, and each edge
splits its slack so that a second more is worth as much Hz in the UE phase as on the backhaul. What is left is one
equation, `sum_k D_k(O) = B`, solved together with the splits by Newton steps that a certified bracket guards. Where the
band is shared anew in each phase, each hop is a problem of its own (`phased`).
"""

from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import realise
from hpfl.planning.deadline import ConvergenceError, Deadline, bound_s, earliest
from hpfl.planning.demand import Split, slacks
from hpfl.planning.link_curve import LN2, link_curve
from hpfl.planning.load import Load, for_each_chunk, load_of, ue_curve
from hpfl.planning.phased import allocate_phased
from hpfl.planning.problem import Allocation, RoundProblem

CERTIFIED_GAP = 1e-6
_EXPECTED_GAP = 1e-9
_ROUNDING = 1e-12  # kept free of the budget, so that a sum in any order stays within it
_TINY = 1e-100


class InfeasibleError(ValueError):
    """A set that cannot finish its round at any bandwidth."""


def allocate(problem: RoundProblem, scheduled: BoolArray) -> Allocation:
    """The bandwidth with which the scheduled edges finish earliest (P4), certified to `CERTIFIED_GAP`.

    Under spectrum `phased`, the best with one switch for all of them.
    """
    load = load_of(problem, scheduled)
    _refuse_starved(problem, load)
    if problem.spectrum == "phased":
        allocation = allocate_phased(problem, scheduled, load)
    elif not load.edges.size:
        return _deliver(problem, scheduled, _Allotment.silent(problem), least_latency_s=0.0)
    else:
        allocation = _allocate(problem, scheduled, load, sure=False)
        if allocation.latency_gap > _EXPECTED_GAP:
            allocation = _allocate(problem, scheduled, load, sure=True)
    if not allocation.latency_gap <= CERTIFIED_GAP:
        raise ConvergenceError(
            f"bandwidth for {load.edges.size} edges: finished in {allocation.round_latency_s:g} s, certified only to "
            f"{allocation.latency_gap:g}; {CERTIFIED_GAP:g} was wanted"
        )
    return allocation


def _allocate(problem: RoundProblem, scheduled: BoolArray, load: Load, *, sure: bool) -> Allocation:
    floor_s = float(load.least_s.max())
    spare_s = floor_s - load.least_s
    found = earliest(load, spare_s, problem.bandwidth_hz, sure=sure)
    allotted, split = _allotted(problem, load, found, spare_s)
    bound = max(found.bound_s, bound_s(split, spare_s, problem.bandwidth_hz))
    return _deliver(problem, scheduled, allotted, least_latency_s=floor_s + bound)


def _refuse_starved(problem: RoundProblem, load: Load) -> None:
    starved = np.isinf(load.least_s)
    if not starved.any() or load.nats_cap is None or problem.ue_energy_j is None:
        return
    ue = int(load.ues[np.flatnonzero(load.nats_cap == 0)[0]])
    least_j = float(problem.ue_bits[ue] * LN2 * (problem.ue_noise_w_per_hz[ue] / problem.ue_gain[ue]))
    edge = int(problem.edge_of_ue[ue])
    place = f"edges[{edge}].ues[{ue - int(np.searchsorted(problem.edge_of_ue, edge))}]"
    raise InfeasibleError(
        f"{place}.energy_j is {problem.ue_energy_j[ue]:g}; at any bandwidth its upload takes more than {least_j:g} J"
    )


@dataclass(frozen=True)
class _Allotment:
    """Hz and deadline multipliers of all UEs and edges, before they are fitted into the budget."""

    ue_hz: FloatArray
    edge_hz: FloatArray
    ue_weight: FloatArray
    edge_weight: FloatArray
    price_s_per_hz: float

    @staticmethod
    def silent(problem: RoundProblem) -> "_Allotment":
        N, K = problem.num_ues, problem.num_edges
        return _Allotment(np.zeros(N), np.zeros(K), np.zeros(N), np.zeros(K), 0.0)


def _allotted(problem: RoundProblem, load: Load, found: Deadline, spare_s: FloatArray) -> tuple[_Allotment, Split]:
    """Every link's Hz at the deadline and splits found, its multiplier, and the certifying lines."""
    allotted = _Allotment.silent(problem)
    phase_slack_s, backhaul_slack_s = slacks(load, found.slack_s + spare_s, found.logit)
    hz, phase_slope = np.zeros((2, load.edges.size))

    def allot(chunk: int) -> None:
        part, segments = load.chunks[chunk]
        curve = ue_curve(load, part, phase_slack_s)
        ue_hz = load.ue_snr_hz[part] * curve.bandwidth
        slope = ue_hz * (curve.decay / load.ue_least_s[part])
        allotted.ue_hz[load.ues[part]], allotted.ue_weight[load.ues[part]] = ue_hz, slope
        starts = load.starts[segments] - part.start
        hz[load.fed[segments]] = np.add.reduceat(ue_hz, starts)
        phase_slope[load.fed[segments]] = np.add.reduceat(slope, starts)

    for_each_chunk(len(load.chunks), allot)
    curve = link_curve(np.maximum(backhaul_slack_s / load.backhaul_least_s, _TINY))
    backhaul_hz = load.backhaul_snr_hz * curve.bandwidth
    backhaul_slope = backhaul_hz * curve.decay / load.backhaul_least_s
    allotted.edge_hz[load.edges] = backhaul_hz
    intercept = hz + backhaul_hz + phase_slope * phase_slack_s + backhaul_slope * backhaul_slack_s
    split = Split(hz + backhaul_hz, found.logit, np.maximum(phase_slope, backhaul_slope), intercept)
    return _weighed(allotted, load, split.slope if found.slope is None else found.slope), split


def _weighed(allotted: _Allotment, load: Load, slope: FloatArray) -> _Allotment:
    """Slopes as multipliers: the price `1 / sum_k -D_k'`, and the deadlines' weights in units of it."""
    price = 1.0 / float(slope.sum())
    allotted.ue_weight[:] *= price
    allotted.edge_weight[load.edges] = price * slope
    return replace(allotted, price_s_per_hz=price)


def _deliver(
    problem: RoundProblem, scheduled: BoolArray, allotted: _Allotment, *, least_latency_s: float
) -> Allocation:
    """The allocation with all of the budget in use, and the times it really gives."""
    total_hz = allotted.ue_hz.sum() + allotted.edge_hz.sum()
    fit = problem.bandwidth_hz * (1.0 - _ROUNDING) / total_hz if total_hz > 0 else 0.0
    ue_hz, edge_hz = allotted.ue_hz * fit, allotted.edge_hz * fit
    times = realise(problem, scheduled, ue_hz, edge_hz)
    latency_s = times.round_latency_s
    return Allocation(
        scheduled=scheduled,
        ue_bandwidth_hz=ue_hz,
        edge_bandwidth_hz=edge_hz,
        times=times,
        least_latency_s=min(least_latency_s, latency_s),
        latency_gap=max(0.0, (latency_s - least_latency_s) / latency_s) if latency_s > 0 else 0.0,
        price_s_per_hz=allotted.price_s_per_hz,
        edge_weight=allotted.edge_weight,
        ue_weight=allotted.ue_weight,
    )
