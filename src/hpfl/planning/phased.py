"""Bandwidth for a given set of edges where the band is shared anew in each phase: one switch for all, exactly.

While UEs upload, backhauls are silent, and the other way round. With one switch `G` for all scheduled edges,

    G = min {G : sum_k sum_i b_{k,i}(G - Tcmp_{k,i}) <= B},    T = min {T : sum_k b_{k,0}(T) <= B},    O = G + T,

two problems of one hop that know nothing of each other, each with its own multipliers.
"""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import realise
from hpfl.planning.load import Load
from hpfl.planning.one_hop import Hop, Shared, hop_of, share_out
from hpfl.planning.problem import Allocation, RoundProblem

_ROUNDING = 1e-12  # kept free of the budget, so that a sum in any order stays within it


def access_hop(load: Load) -> Hop:
    """The UEs' links of all edges, which end together."""
    floor_s = float(load.least_phase_s[load.fed].max(initial=0.0))
    return Hop(
        floor_s=floor_s,
        spare_s=(floor_s - load.least_phase_s)[load.edge_of] + load.spare_s,
        least_s=load.ue_least_s,
        snr_hz=load.ue_snr_hz,
        nats_cap=load.nats_cap,
    )


def backhaul_hop(load: Load) -> Hop:
    """The backhauls of all edges that have something to send, which begin and end together."""
    on = load.has_backhaul
    return hop_of(load.backhaul_least_s[on], load.backhaul_snr_hz[on])


def allocate_phased(problem: RoundProblem, scheduled: BoolArray, load: Load) -> Allocation:
    """The bandwidth with which the scheduled edges finish earliest if all of them switch at one moment."""
    N, K = problem.num_ues, problem.num_edges
    access, backhaul = (share_out(hop, problem.bandwidth_hz) for hop in (access_hop(load), backhaul_hop(load)))
    senders = load.edges[load.has_backhaul]
    ue_hz = _spread(_within(access.hz, problem.bandwidth_hz), load.ues, N)
    edge_hz = _spread(_within(backhaul.hz, problem.bandwidth_hz), senders, K)
    times = realise(problem, scheduled, ue_hz, edge_hz, switch="one")
    latency_s, least_s = times.round_latency_s, access.bound_s + backhaul.bound_s
    return Allocation(
        scheduled=scheduled,
        ue_bandwidth_hz=ue_hz,
        edge_bandwidth_hz=edge_hz,
        times=times,
        least_latency_s=min(least_s, latency_s),
        latency_gap=max(0.0, (latency_s - least_s) / latency_s) if latency_s > 0 else 0.0,
        price_s_per_hz=_price(access) + _price(backhaul),
        edge_weight=_spread(backhaul.slope * _price(backhaul), senders, K),
        ue_weight=_spread(access.slope * _price(access), load.ues, N),
        certificate="one switch",
    )


def _within(hz: FloatArray, bandwidth_hz: float) -> FloatArray:
    """The Hz with all of the budget in use."""
    return hz * (bandwidth_hz * (1.0 - _ROUNDING) / float(hz.sum())) if hz.size else hz


def _price(shared: Shared) -> float:
    """`-dT/dB` of a hop, `1 / sum_i -b_i'`."""
    return 1.0 / float(shared.slope.sum()) if shared.slope.size else 0.0


def _spread(values: FloatArray, at: np.ndarray, count: int) -> FloatArray:
    spread = np.zeros(count)
    spread[at] = values
    return spread
