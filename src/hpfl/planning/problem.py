"""What a planner may know of a round (`RoundProblem`) and what it decides (`Plan`), as arrays over edges and UEs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.flattened import flattened
from hpfl.network.links import Links
from hpfl.planning.codings import Codings
from hpfl.planning.problem_arrays import usable
from hpfl.records import APART, PER_EDGE, PER_UE, Index, taken
from hpfl.rng import Stream

Memory = Mapping[str, Any]
"""What a planner hands on to its next round: plain values and arrays by name, which JSON can hold."""
Spectrum = Literal["fixed", "phased"]
"""How links share the band: for the whole round (the paper's C2), or anew in each phase (docs/planning.md)."""
Certificate = Literal["fixed", "one switch", "any bandwidth over time"]
"""Which bandwidths a bound speaks of: constant ones (C2), those with one switch for all edges, or all there are."""
APPLIED = "applied"
"""In a planner's memory, put there by the round: each edge's share in the step, where that was not the plan's mean."""
ARRIVED = "arrived"
"""Put there for planners with the trait `arrivals`: sketches of the updates that arrived in the last round, by edge."""

if TYPE_CHECKING:  # to a type checker, what can be read like another record is one
    from hpfl.planning.broadcast import Downlink

    _LikeLinks = Links
else:
    _LikeLinks = object


@flattened("links", Links)
@dataclass(frozen=True, kw_only=True)
class RoundProblem(_LikeLinks):
    """One round of planning: K edges and N UEs (paper, problem P2); units in names.

    The radio and the work left are its `links`, which may be given and read as such or array by array (`edge_gain`).
    Whatever NumPy reads as numbers will do, and is checked (`ProblemError`) unless it is `trusted`, as what the round
    itself makes of a configuration that was checked. Planners take UEs sorted by edge; `hpfl.plan` takes any order.
    """

    bandwidth_hz: float
    rho: float
    phi: float
    max_edges: int
    staleness_bound: int
    links: Links
    importance: FloatArray = field(metadata=PER_EDGE)
    staleness: IntArray = field(metadata=PER_EDGE)
    sketches: FloatArray | None = field(default=None, metadata=PER_EDGE)
    overhead_s: float = 0.0  # what the round takes before and beside its uploads, whoever is scheduled
    renewal_s: FloatArray | None = field(default=None, metadata=PER_EDGE)  # to compute on a new model, where first
    spectrum: Spectrum = "fixed"
    downlink: "Downlink | None" = field(default=None, metadata=APART)  # None: a broadcast takes no time
    codings: Codings | None = field(default=None, metadata=APART)  # None: uploads take the links' bits
    steady: bool = True  # whether gains stay as they are until the round is over
    edge_ids: tuple[str, ...] | None = field(default=None, metadata=PER_EDGE)
    ue_ids: tuple[str, ...] | None = field(default=None, metadata=PER_UE)
    trusted: InitVar[bool] = False

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

    def __post_init__(self, trusted: bool) -> None:
        if not trusted:
            made = usable(self)
            of_links = {entry.name: made.pop(entry.name) for entry in fields(self.links) if entry.name in made}
            for name, value in {**made, "links": replace(self.links, **of_links)}.items():
                object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, source: str | bytes | Mapping[str, Any]) -> "RoundProblem":
        """The problem a JSON document describes; faults are named with their place."""
        from hpfl.planning.documents import problem_from_json  # the reader builds what is defined here

        return problem_from_json(source)

    def of_edges(self, edges: IntArray | BoolArray) -> "RoundProblem":
        """The same problem over these edges, numbered anew in this order, and the UEs under them; edges keep names."""
        named = replace(self, edge_ids=self.names, trusted=True)
        return replace(named, **taken(named, edges=edges, ues=self.links.ues_under(edges)), trusted=True)

    def of_ues(self, order: Index) -> "RoundProblem":
        """The same problem with these UEs, in this order."""
        return replace(self, **taken(self, ues=order), trusted=True)

    def coded(self, coding: int) -> "RoundProblem":
        """The same problem once an entry of the menu is chosen: its bits are on the links that have any to send."""
        if self.codings is None:
            return self
        ue_bits, edge_bits = self.codings.ue_bits[coding], self.codings.edge_bits[coding]
        return replace(self, links=self.links.carrying(ue_bits, edge_bits), codings=None, trusted=True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the edges are called: their ids, or where they have none their numbers."""
        return self.edge_ids or tuple(str(edge) for edge in range(self.num_edges))

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
class Times:
    """Powers and times of an allotment; NaN times and no power for links of edges left out.

    `edge_compute_s` is when the first of an edge's UEs can transmit. `switch_s` is there where the band is shared anew
    in each phase (spectrum `phased`): seconds after the plan at which an edge's backhaul begins at the earliest.
    """

    ue_power_w: FloatArray = field(metadata=PER_UE)
    upload_s: FloatArray = field(metadata=PER_UE)
    edge_upload_s: FloatArray = field(metadata={**PER_EDGE, "absent": np.nan})
    edge_phase_s: FloatArray = field(metadata={**PER_EDGE, "absent": np.nan})
    latency_s: FloatArray = field(metadata={**PER_EDGE, "absent": np.nan})
    round_latency_s: float
    edge_compute_s: FloatArray | None = field(default=None, metadata={**PER_EDGE, "absent": np.nan})
    switch_s: FloatArray | None = field(default=None, metadata={**PER_EDGE, "absent": np.nan})


if TYPE_CHECKING:
    _LikeTimes = Times
else:
    _LikeTimes = object


@flattened("times", Times)
@dataclass(frozen=True, kw_only=True)
class Allocation(_LikeTimes):
    """Bandwidth of a set and what it yields; 0 Hz and NaN times for edges left out.

    An exact one (`allocate`) has more to say. No bandwidth of its class (`certificate`) lets the set finish before
    `least_latency_s`, which is less than its latency by the share `latency_gap`. `price_s_per_hz` is `-dO/dB`;
    `edge_weight` and `ue_weight` are the multipliers of the deadlines: the part of `O` that one second less of work on
    that edge's backhaul, or by that UE, would save. Before `any_time_least_s` no bandwidth over time whatever lets the
    set finish, where that was asked for (0: it was not).
    """

    scheduled: BoolArray = field(metadata={**PER_EDGE, "absent": False})
    ue_bandwidth_hz: FloatArray = field(metadata=PER_UE)
    edge_bandwidth_hz: FloatArray = field(metadata={**PER_EDGE, "absent": 0.0})
    times: Times
    least_latency_s: float = 0.0
    latency_gap: float = 1.0
    price_s_per_hz: float = 0.0
    edge_weight: FloatArray | None = field(default=None, metadata={**PER_EDGE, "absent": 0.0})
    ue_weight: FloatArray | None = field(default=None, metadata=PER_UE)
    certificate: Certificate = "fixed"
    any_time_least_s: float = 0.0

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...


if TYPE_CHECKING:
    _LikeAllocation = Allocation
else:
    _LikeAllocation = object


@flattened("allocation", Allocation)
@dataclass(frozen=True, kw_only=True)
class Plan(_LikeAllocation):
    """Every decision of a round. Links of unscheduled edges have 0 Hz and NaN times.

    Who uploads, with how many Hz and how long it takes is its `allocation`, which may be given and read as such or
    array by array (`scheduled`, `upload_s`). `step_scale` multiplies the outer step; `broadcast` is who should hear of
    the new model, where the configuration leaves that open (None: no wish), where that is "all" only those that `hears`
    marks (None: every one); `noise_scale` is the noise between edges over the signal, where it was estimated. `coding`
    is the entry of the menu (`RoundProblem.codings`) that uploads are coded by, and its bits are what times are of;
    `step_coding` that of the cloud's step, where it is coded anew (None: the same).
    `broadcast_s` is what the broadcast after the step is expected to take; `bound_covers` the bandwidths over time that
    no plan of this problem beats `lower_bound` with.
    """

    planner: str
    allocation: Allocation
    objective: float
    lower_bound: float
    relative_gap: float
    exceeds_cap: bool = False
    step_scale: float = 1.0
    broadcast: Literal["scheduled", "all"] | None = None
    hears: BoolArray | None = field(default=None, metadata={**PER_EDGE, "absent": True})
    noise_scale: float | None = None
    broadcast_s: float = 0.0
    coding: int = 0
    step_coding: int | None = None
    bound_covers: Certificate = "fixed"

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

    @property
    def phases_s(self) -> dict[str, float]:
        """Seconds of the round by phase, on the edge that finishes last: they add up to its latency and the broadcast.

        It computes until the first of its UEs can transmit; access lasts until its backhaul begins.
        """
        if not self.scheduled.any():
            return {"compute": 0.0, "access": 0.0, "backhaul": 0.0, "broadcast": self.broadcast_s}
        last = int(np.nanargmax(np.where(self.scheduled, self.latency_s, np.nan)))
        sent_s = float(self.latency_s[last] - self.edge_upload_s[last])
        compute_s = 0.0 if self.edge_compute_s is None else min(float(self.edge_compute_s[last]), sent_s)
        backhaul_s = float(self.edge_upload_s[last])
        return {
            "compute": compute_s,
            "access": sent_s - compute_s,
            "backhaul": backhaul_s,
            "broadcast": self.broadcast_s,
        }

    def of_ues(self, order: Index) -> "Plan":
        """The same plan with these UEs, in this order."""
        return replace(self, **taken(self, ues=order))


Planner = Callable[[RoundProblem, Memory, Stream], tuple[Plan, Memory]]
"""Plans one round; may learn by the memory it hands on, may draw from the stream, keeps nothing of its own."""
