"""Virtual time: how much work is left before a plan, and what a plan's bandwidths achieve."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hpfl.network.energy import compute_j, transmit_j
from hpfl.network.links import Links
from hpfl.planning.problem import Plan
from hpfl.registry import Registry

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ClockMemory = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Work:
    """A fresh edge round's work: seconds of computing and bits per UE, bits per edge."""

    compute_s: FloatArray
    ue_bits: FloatArray
    edge_bits: FloatArray


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What happened until the cloud aggregated: who arrived, how long it took, what each UE spent."""

    arrived: BoolArray
    latency_s: float
    uplink_bits: float
    compute_s: FloatArray
    transmit_j: FloatArray
    memory: ClockMemory


class Clock(Protocol):
    """Turns plans into time."""

    def remaining(self, memory: ClockMemory, work: Work, awaiting: BoolArray) -> tuple[Work, ClockMemory]:
        """What is left to do before this round's plan, once the `awaiting` edges have started anew."""
        ...

    def advance(self, memory: ClockMemory, links: Links, plan: Plan) -> Progress:
        """Let a plan act until the cloud aggregates."""
        ...


CLOCKS: Registry[type[Clock]] = Registry("clock")


@CLOCKS.register("round")
class RoundClock:
    """The paper's formula: every scheduled edge starts from zero and the round lasts `max O_k` (section 3.3)."""

    def remaining(self, memory: ClockMemory, work: Work, awaiting: BoolArray) -> tuple[Work, ClockMemory]:
        """All of it, always."""
        del awaiting
        return work, memory

    def advance(self, memory: ClockMemory, links: Links, plan: Plan) -> Progress:
        """All scheduled edges arrive."""
        active = plan.scheduled[links.edge_of_ue]
        air_s = np.where(active, plan.upload_s, 0.0)
        return Progress(
            arrived=plan.scheduled,
            latency_s=plan.round_latency_s,
            uplink_bits=float(links.ue_bits[active].sum() + links.edge_bits[plan.scheduled].sum()),
            compute_s=np.where(active, links.compute_s, 0.0),
            transmit_j=transmit_j(plan.ue_power_w, air_s),
            memory=memory,
        )


def joules_of(progress: Progress, cpu_hz: FloatArray) -> FloatArray:
    """Joules of each link's UE: computing and transmitting."""
    return compute_j(progress.compute_s, cpu_hz) + progress.transmit_j
