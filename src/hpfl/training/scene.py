"""What a round looked like when it was planned, for pictures: gains, places, who was given which Hz, and until when.

Of up to `MOST_UES` participants each is in it; of more, sums by edge alone, so that a scene stays small.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.links import Links
from hpfl.network.places import Places
from hpfl.planning.problem import Memory, Plan
from hpfl.training.state import Heard, Observation, TrainState

MOST_UES = 2_000
_BINS = 20


@dataclass(frozen=True, kw_only=True)
class EdgeShare:
    """The plan of every edge that was called: Hz of its UEs together and of its backhaul, seconds after the plan."""

    edge: IntArray
    access_hz: FloatArray
    backhaul_hz: FloatArray
    compute_s: FloatArray
    access_end_s: FloatArray
    backhaul_start_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class UeShares:
    """All participants with their gains, and of those that were given Hz how many and from when to when they send."""

    ue: IntArray
    edge: IntArray
    gain: FloatArray
    sent_ue: IntArray
    sent_hz: FloatArray
    start_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class OnAirDown:
    """A broadcast that takes time: seconds of the cloud's hop, then the cells that send and their Hz."""

    cloud_s: float
    edge: IntArray
    hz: FloatArray


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One round as it was planned at `planned_s` of the run's clock.

    `ues` is None where there are too many; then `uploads` has how long they send: edges of bins (s) and counts.
    `places` are those of a network at rest; where things move, `edge_xy_m` and `ue_xy_m` are this round's.
    """

    round: int
    planned_s: float
    plan: dict[str, Any]
    phased: bool
    staleness: IntArray
    importance: FloatArray
    edge_gain: FloatArray
    absent: IntArray
    links: EdgeShare
    ues: UeShares | None
    uploads: tuple[FloatArray, IntArray] | None
    broadcast: OnAirDown | None
    places: Places | None
    edge_xy_m: FloatArray | None = None
    ue_xy_m: FloatArray | None = None


def scene_of(state: TrainState, observation: Observation, plan: Plan, heard: Heard) -> Scene:
    """The scene of the round that `state` is before; `heard` is its broadcast."""
    links, few = observation.links, observation.links.num_ues <= MOST_UES
    places = observation.places
    moving = places is not None and places.moves
    shown = moving and few and places is not None
    return Scene(
        round=state.round + 1,
        planned_s=state.time_s + observation.spent_s,
        plan=_reasons(plan, heard.state.memory),
        phased=plan.switch_s is not None,
        staleness=state.staleness,
        importance=observation.importance,
        edge_gain=links.edge_gain,
        absent=_absent(observation.active),
        links=_edge_shares(links, plan),
        ues=_ue_shares(links, plan) if few else None,
        uploads=None if few else _histogram(plan.upload_s[plan.ue_bandwidth_hz > 0]),
        broadcast=_on_air_down(heard),
        places=None if moving else places,
        edge_xy_m=places.edge_xy_m if shown and places is not None else None,
        ue_xy_m=places.ue_xy_m[links.members] if shown and places is not None else None,
    )


def _reasons(plan: Plan, memory: Memory) -> dict[str, Any]:
    """What the planner says besides what the record has; `debt` is the length of what it owes, where it keeps one."""
    owed = memory.get("debt")
    return {
        "coding": plan.coding,
        "round_latency_s": plan.round_latency_s,
        "least_latency_s": plan.least_latency_s,
        "any_time_least_s": plan.any_time_least_s,
        "price_s_per_hz": plan.price_s_per_hz,
        "broadcast_s": plan.broadcast_s,
        "exceeds_cap": plan.exceeds_cap,
        "debt": None if owed is None else float(np.linalg.norm(np.asarray(owed, dtype=np.float64))),
    }


def _absent(active: BoolArray | None) -> IntArray:
    return np.zeros(0, dtype=np.int64) if active is None else np.flatnonzero(~active)


def _edge_shares(links: Links, plan: Plan) -> EdgeShare:
    called = np.flatnonzero(plan.scheduled)
    ue_hz = np.bincount(links.edge_of_ue, weights=plan.ue_bandwidth_hz, minlength=links.num_edges)
    compute_s = np.full(links.num_edges, np.nan) if plan.edge_compute_s is None else plan.edge_compute_s
    return EdgeShare(
        edge=called,
        access_hz=ue_hz[called].astype(np.float64),
        backhaul_hz=plan.edge_bandwidth_hz[called],
        compute_s=compute_s[called],
        access_end_s=plan.edge_phase_s[called],
        backhaul_start_s=(plan.latency_s - plan.edge_upload_s)[called],
        end_s=plan.latency_s[called],
    )


def _ue_shares(links: Links, plan: Plan) -> UeShares:
    sends = np.flatnonzero(plan.ue_bandwidth_hz > 0)
    start_s = links.compute_s[sends]
    return UeShares(
        ue=links.members,
        edge=links.edge_of_ue,
        gain=links.ue_gain,
        sent_ue=links.members[sends],
        sent_hz=plan.ue_bandwidth_hz[sends],
        start_s=start_s,
        end_s=start_s + plan.upload_s[sends],
    )


def _histogram(seconds: FloatArray) -> tuple[FloatArray, IntArray] | None:
    finite = seconds[np.isfinite(seconds)]
    if not finite.size:
        return None
    counts, edges = np.histogram(finite, bins=_BINS)
    return edges.astype(np.float64), counts.astype(np.int64)


def _on_air_down(heard: Heard) -> OnAirDown | None:
    if not heard.seconds or heard.hears is None or heard.cell_hz is None:
        return None
    sends = np.flatnonzero(heard.cell_hz > 0)
    return OnAirDown(cloud_s=heard.cloud_s, edge=sends, hz=heard.cell_hz[sends])
