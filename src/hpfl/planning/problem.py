"""What a planner may know of a round (`RoundProblem`) and what it decides (`Plan`), as arrays over edges and UEs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.arrays import usable
from hpfl.rng import Stream

Memory = Mapping[str, Any]
APPLIED = "applied"
"""In a planner's memory, put there by the round: each edge's share in the step, where that was not the plan's mean."""


@dataclass(frozen=True, kw_only=True)
class RoundProblem:
    """One round of planning: K edges and N UEs (paper, problem P2); units in names.

    Whatever NumPy reads as numbers will do, and is checked (`ProblemError`) unless it is `trusted`, as what the round
    itself makes of a configuration that was checked. Planners take UEs sorted by edge; `hpfl.plan` takes any order.
    """

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
    overhead_s: float = 0.0  # what the round takes before and beside its uploads, whoever is scheduled
    renewal_s: FloatArray | None = None  # what each edge's UEs need to compute on a new model, where that comes first
    edge_ids: tuple[str, ...] | None = None
    ue_ids: tuple[str, ...] | None = None
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            for name, value in usable(vars(self)).items():
                object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, source: str | bytes | Mapping[str, Any]) -> "RoundProblem":
        """The problem a JSON document describes; faults are named with their place."""
        from hpfl.planning.documents import problem_from_json  # the reader builds what is defined here

        return problem_from_json(source)

    @property
    def num_edges(self) -> int:
        """Number of edges K."""
        return self.importance.size

    @property
    def num_ues(self) -> int:
        """Number of UEs N."""
        return self.ue_bits.size

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the edges are called: their ids, or where they have none their numbers."""
        return self.edge_ids or tuple(str(edge) for edge in range(self.num_edges))

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the UEs come edge by edge, in the edges' order."""
        return bool((self.edge_of_ue[1:] >= self.edge_of_ue[:-1]).all())

    @cached_property
    def ue_snr_hz(self) -> FloatArray:
        """`s = p h / N_0` of every UE's link at its full power, in Hz."""
        return self.ue_power_w * (self.ue_gain / self.ue_noise_w_per_hz)

    @cached_property
    def edge_snr_hz(self) -> FloatArray:
        """`s = p h / N_0` of every edge's backhaul, in Hz."""
        return self.edge_power_w * (self.edge_gain / self.edge_noise_w_per_hz)

    @cached_property
    def must(self) -> BoolArray:
        """Edges at the staleness bound, which every planner schedules."""
        return self.staleness >= self.staleness_bound

    @cached_property
    def able(self) -> BoolArray:
        """Edges that some bandwidth lets finish: those whose UEs' energy budgets can carry their bits at all."""
        able = np.ones(self.num_edges, dtype=np.bool_)
        if self.ue_energy_j is not None:
            least_s = self.ue_bits * math.log(2.0) / self.ue_snr_hz
            starved = (self.ue_energy_j / self.ue_power_w <= least_s) & (self.ue_bits > 0)
            able[self.edge_of_ue[starved]] = False
        return able

    @cached_property
    def most_edges(self) -> int:
        """Most edges a plan may schedule, `max(A, |must|)`, and no more than there are."""
        return min(max(self.max_edges, int(self.must.sum())), self.num_edges)

    @cached_property
    def values(self) -> FloatArray:
        """What scheduling each edge is worth in the objective of P2, `rho phi g_k`."""
        return self.rho * self.phi * self.importance

    def objective(self, scheduled: BoolArray, round_latency_s: float) -> float:
        """P2's objective `-rho phi sum g + (1 - rho) O` of a set that finishes at `round_latency_s`."""
        return float((1.0 - self.rho) * round_latency_s - self.values[scheduled].sum())

    def scale(self, scheduled: BoolArray, round_latency_s: float) -> float:
        """`rho phi sum g + (1 - rho) O`, what gaps of a plan are relative to."""
        return float((1.0 - self.rho) * round_latency_s + self.values[scheduled].sum())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every decision of a round. Links of unscheduled edges have 0 Hz and NaN times.

    `step_scale` multiplies the outer step; `broadcast` is who should hear of the new model, where the configuration
    leaves that open (None: no wish), where that is "all" only those that `hears` marks (None: every one); `noise_scale`
    is the noise between edges over the signal, where it was estimated.
    """

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
    step_scale: float = 1.0
    broadcast: Literal["scheduled", "all"] | None = None
    hears: BoolArray | None = None
    noise_scale: float | None = None


Planner = Callable[[RoundProblem, Memory, Stream], tuple[Plan, Memory]]
"""Plans one round; may learn by the memory it hands on, may draw from the stream, keeps nothing of its own."""
