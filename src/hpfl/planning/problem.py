"""What a planner may know of a round (`RoundProblem`) and what it decides (`Plan`), as arrays over edges and UEs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class RoundProblem:
    """One round of planning: K edges, N UEs sorted by edge. Units in names; SYSTEM.md section 1 has the symbols."""

    bandwidth_hz: float
    rho: float
    phi: float
    max_edges: int
    staleness_bound: int
    edge_gain: FloatArray
    edge_power_w: FloatArray
    edge_noise_w_per_hz: FloatArray
    edge_bits: FloatArray
    importance: FloatArray
    staleness: IntArray
    edge_of_ue: IntArray
    ue_gain: FloatArray
    ue_power_w: FloatArray
    ue_noise_w_per_hz: FloatArray
    ue_bits: FloatArray
    compute_s: FloatArray
    ue_energy_j: FloatArray | None = None
    sketches: FloatArray | None = None
    edge_ids: tuple[str, ...] | None = None
    ue_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every decision of a round. Links of unscheduled edges have 0 Hz and NaN times."""

    planner: str
    scheduled: BoolArray
    ue_bandwidth_hz: FloatArray
    edge_bandwidth_hz: FloatArray
    ue_power_w: FloatArray
    upload_s: FloatArray
    edge_upload_s: FloatArray
    edge_phase_s: FloatArray
    latency_s: FloatArray
    round_latency_s: float
    objective: float
    lower_bound: float
    relative_gap: float
    exceeds_cap: bool = False
