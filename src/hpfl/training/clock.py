"""Virtual time: how much work is left before a plan, and what a plan's bandwidths achieve."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.channel import Gains
from hpfl.network.energy import compute_j
from hpfl.network.links import Links
from hpfl.planning.problem import Plan
from hpfl.registry import Registry

ClockMemory = Mapping[str, NDArray[Any]]
"""What a clock hands on to its next round: arrays by name."""


@dataclass(frozen=True, kw_only=True)
class ClockSettings:
    """When the cloud aggregates, when an edge stops waiting (0: never), how long a channel lasts (0: a round)."""

    trigger: Literal["scheduled", "first"] = "scheduled"
    max_edges: int = 1
    deadline_s: float = 0.0
    coherence_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """An edge round's work: seconds of computing and bits per UE, bits per edge."""

    compute_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray


@dataclass(frozen=True, kw_only=True)
class Span:
    """From one plan to the next aggregation: everything that decides what happens in between.

    `must` are the edges at the staleness bound; `ue_fails` and `edge_fails` are the uploads that will be found spoilt
    when they are complete; `gains` gives the channel of the n-th coherence block from the plan on, of the participating
    UEs' links and of all backhauls; `whole_edge_bits` is an update's full size. An edge that hears fewer UEs than it
    `needs` (None: one) has no update.
    """

    links: Links
    plan: Plan
    start_s: float
    must: BoolArray
    whole_edge_bits: FloatArray
    ue_fails: BoolArray | None = None
    edge_fails: BoolArray | None = None
    gains: Callable[[int], Gains] | None = None
    needs: IntArray | None = None


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Per edge, in seconds after the plan: when it began to upload, had its UEs' updates, began to send, was settled.

    Infinite where that did not happen. `ue_bits` and `edge_bits` were carried meanwhile.
    """

    computed_s: FloatArray
    delivered_s: FloatArray
    sending_s: FloatArray
    settled_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What happened until the cloud aggregated: who arrived, how long it took, what each UE spent.

    `lost` UEs were left out of their edge's update; `dropped` edges lost theirs altogether, those `below` because they
    heard fewer UEs than they need (None: they need no more than one).
    """

    arrived: BoolArray
    dropped: BoolArray
    lost: BoolArray
    latency_s: float
    uplink_bits: float
    compute_s: FloatArray
    transmit_j: FloatArray
    marks: Marks
    memory: ClockMemory
    below: BoolArray | None = None


class Clock(Protocol):
    """Turns plans into time; what it remembers is in the memory it is given and hands on.

    One in which work goes on between plans also has `wait(memory, seconds, members)`, for the seconds of a broadcast:
    the memory after it, and how long each of all UEs computed in it.
    """

    def __init__(self, settings: ClockSettings) -> None: ...

    def delivered(self, memory: ClockMemory, num_ues: int) -> BoolArray:
        """UEs whose update is at their edge."""
        ...

    def remaining(
        self, memory: ClockMemory, whole: Work, *, members: IntArray, edges: BoolArray
    ) -> tuple[Work, ClockMemory]:
        """What is left to do before this round's plan, once `edges` and their `members` have started anew."""
        ...

    def advance(self, memory: ClockMemory, interval: Span) -> Progress:
        """Let a plan act until the cloud aggregates."""
        ...


CLOCKS: Registry[type[Clock]] = Registry(
    "clock",
    traits={"continuous": False},
    shipped={"round": "hpfl.simulation.round:RoundClock", "event": "hpfl.simulation.event:EventClock"},
    called=("settings",),
    made=("delivered", "remaining", "advance"),
)
"""Trait `continuous`: time runs on between plans, so that the first to arrive, and fades of seconds, have a meaning."""


def joules_of(progress: Progress, cpu_hz: FloatArray) -> FloatArray:
    """Joules of each link's UE: computing and transmitting."""
    return compute_j(progress.compute_s, cpu_hz) + progress.transmit_j
