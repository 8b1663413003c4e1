"""The band over time: when backhauls begin, and the most Hz that links use at any moment.

With constant bandwidths (switch_s is None) a link's Hz are reserved for the whole round, as in the paper's (C2). Else
an edge's UEs have theirs until they have delivered, and its backhaul from its switch on.
"""

from typing import Literal

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.links import Links
from hpfl.planning.problem import Allocation, Plan

Switch = FloatArray | Literal["one"] | None
"""When backhauls may begin: at these seconds (PER_EDGE), all at once after the last UE ("one"), at any time (None)."""

_SAME_MOMENT = 1e-9  # of a round's seconds, within which one link may end and another begin


def switch_times(switch: Switch, phase_s: FloatArray, scheduled: BoolArray) -> FloatArray | None:
    """Every scheduled edge's switch in seconds after the plan, NaN for the others; None where there is none."""
    if switch is None:
        return None
    at_s = np.max(phase_s[scheduled], initial=0.0) if isinstance(switch, str) else switch
    return np.where(scheduled, at_s, np.nan)


def backhaul_starts_s(phase_s: FloatArray, switch_s: FloatArray | None, sends: BoolArray) -> FloatArray:
    """When backhauls begin: once the edge's phase is over and its switch has come; `sends` have something to send."""
    return phase_s if switch_s is None else np.where(sends, np.fmax(phase_s, switch_s), phase_s)


def is_one_switch(switch_s: FloatArray, scheduled: BoolArray) -> bool:
    """Whether all scheduled edges switch at the same moment."""
    moments_s = switch_s[scheduled]
    return bool(moments_s.size == 0 or (moments_s == moments_s[0]).all())


def most_hz(links: Links, plan: Plan | Allocation) -> float:
    """The most Hz in use at any moment of a plan, by the times it promises."""
    ue_hz, edge_hz = float(plan.ue_bandwidth_hz.sum()), float(plan.edge_bandwidth_hz.sum())
    if plan.switch_s is None:
        return ue_hz + edge_hz
    starts_s = plan.latency_s - plan.edge_upload_s
    sends = plan.scheduled & (plan.edge_bandwidth_hz > 0)
    last_s = np.max(plan.edge_phase_s[plan.scheduled], initial=0.0)
    if np.min(starts_s[sends], initial=np.inf) >= last_s * (1.0 - _SAME_MOMENT):
        return max(ue_hz, edge_hz)
    return _peak_hz(links, plan, starts_s)


def _peak_hz(links: Links, plan: Plan | Allocation, starts_s: FloatArray) -> float:
    """The highest sum of links that have begun and not ended; an end that just precedes a beginning comes first."""
    on, sends = plan.ue_bandwidth_hz > 0, plan.edge_bandwidth_hz > 0
    begin_s = np.concatenate([links.compute_s[on], starts_s[sends]])
    end_s = np.concatenate([(links.compute_s + plan.upload_s)[on], plan.latency_s[sends]])
    hz = np.concatenate([plan.ue_bandwidth_hz[on], plan.edge_bandwidth_hz[sends]])
    end_s = np.maximum(end_s - _SAME_MOMENT * plan.round_latency_s, begin_s)
    change = np.concatenate([hz, -hz])
    order = np.lexsort((change, np.concatenate([begin_s, end_s])))
    return float(np.max(np.cumsum(change[order]), initial=0.0))
