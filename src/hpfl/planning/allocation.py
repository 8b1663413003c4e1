"""What an allotment of bandwidth really gives: powers, times and the plan's objective."""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.latency import upload_s as seconds_to_send
from hpfl.network.links import Links
from hpfl.planning.link_curve import LN2, energy_nats
from hpfl.planning.problem import Allocation, Certificate, Plan, RoundProblem, Times
from hpfl.planning.spectrum import Switch, backhaul_starts_s, switch_times


def realise(
    problem: RoundProblem,
    scheduled: BoolArray,
    ue_bandwidth_hz: FloatArray,
    edge_bandwidth_hz: FloatArray,
    *,
    switch: Switch = None,
) -> Times:
    """Powers and times with which the scheduled edges send over the bandwidth allotted.

    `switch` says when backhauls may begin: after all edges' phases ("one"), at a moment of each edge, or at any time.
    """
    links = problem.links
    member = scheduled[links.edge_of_ue]
    sends = member & (links.ue_bits > 0)
    bits = np.where(sends, links.ue_bits, 0.0)
    upload_s = seconds_to_send(bits, ue_bandwidth_hz, links.ue_snr_hz)
    power_w = np.where(sends, links.ue_power_w, 0.0)
    if links.ue_energy_j is not None:
        slow_s, slow_w = _at_budget(links, links.ue_energy_j, ue_bandwidth_hz)
        over = power_w * upload_s > links.ue_energy_j
        upload_s, power_w = np.where(over, slow_s, upload_s), np.where(over, slow_w, power_w)
    return finished(
        links,
        scheduled,
        member,
        upload_s=upload_s,
        ue_power_w=power_w,
        edge_bandwidth_hz=edge_bandwidth_hz,
        switch=switch,
    )


def finished(
    links: Links,
    scheduled: BoolArray,
    member: BoolArray,
    *,
    upload_s: FloatArray,
    ue_power_w: FloatArray,
    edge_bandwidth_hz: FloatArray,
    switch: Switch = None,
) -> Times:
    """When the scheduled edges are through, whose UEs (`member`) upload in `upload_s` with these powers."""
    sends = member & (links.ue_bits > 0)
    phase_s = np.zeros(links.num_edges)
    np.maximum.at(phase_s, links.edge_of_ue[sends], (links.compute_s + upload_s)[sends])
    edge_upload_s = seconds_to_send(np.where(scheduled, links.edge_bits, 0.0), edge_bandwidth_hz, links.edge_snr_hz)
    switch_s = switch_times(switch, phase_s, scheduled)
    starts_s = backhaul_starts_s(phase_s, switch_s, links.edge_bits > 0)
    latency_s = np.where(scheduled, starts_s + edge_upload_s, np.nan)
    return Times(
        ue_power_w=ue_power_w,
        upload_s=np.where(member, upload_s, np.nan),
        edge_upload_s=np.where(scheduled, edge_upload_s, np.nan),
        edge_phase_s=np.where(scheduled, phase_s, np.nan),
        latency_s=latency_s,
        round_latency_s=float(np.max(latency_s[scheduled], initial=0.0)),
        edge_compute_s=_computed_s(links, scheduled, sends),
        switch_s=switch_s,
    )


def _computed_s(links: Links, scheduled: BoolArray, sends: BoolArray) -> FloatArray:
    """When the first UE of each edge can transmit; at once where none has to."""
    first_s = np.full(links.num_edges, np.inf)
    np.minimum.at(first_s, links.edge_of_ue[sends], links.compute_s[sends])
    return np.where(scheduled, np.where(np.isinf(first_s), 0.0, first_s), np.nan)


def _at_budget(links: Links, energy_j: FloatArray, bandwidth_hz: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times and powers that use up the energy budget: `T = c / (b y)` with the budget's own `y`, and `p = E / T`."""
    nats_to_send = np.where(links.ue_bits > 0, links.ue_bits, 1.0) * LN2
    nats_cap = energy_nats(nats_to_send / links.ue_snr_hz, links.ue_power_w, energy_j)
    with np.errstate(divide="ignore", invalid="ignore"):
        slow_s = nats_to_send / (bandwidth_hz * nats_cap)
        return slow_s, np.minimum(energy_j / slow_s, links.ue_power_w)


def finish_plan(
    problem: RoundProblem,
    allocation: Allocation,
    planner: str,
    *,
    lower_bound: float,
    exceeds_cap: bool = False,
    covers: Certificate = "any bandwidth over time",
) -> Plan:
    """The plan of an allocation, with P2's objective and its gap to a bound that no plan can beat.

    Where the band may be shared anew in each phase, `covers` says which bandwidths over time the bound speaks of.
    """
    scheduled, latency_s = allocation.scheduled, allocation.round_latency_s
    objective = problem.objective(scheduled, latency_s)
    lower_bound = min(lower_bound, objective)
    scale = problem.scale(scheduled, latency_s)
    return Plan(
        planner=planner,
        allocation=allocation,
        objective=objective,
        lower_bound=lower_bound,
        relative_gap=(objective - lower_bound) / scale if scale > 0 else 0.0,
        exceeds_cap=exceeds_cap,
        bound_covers="fixed" if problem.spectrum == "fixed" else covers,
    )
