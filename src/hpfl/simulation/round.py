"""Clock `round`: the paper's formula, by which every scheduled edge starts from zero each time it is called."""

import numpy as np

from hpfl.arrays import BoolArray, IntArray
from hpfl.simulation.forecast import Left
from hpfl.simulation.segments import played
from hpfl.training.clock import ClockMemory, ClockSettings, Progress, Span, Work


class RoundClock:
    """The round lasts `max O_k` over the scheduled edges (section 3.3); nothing carries over, nobody else computes."""

    def __init__(self, settings: ClockSettings) -> None:
        self.settings = settings

    def delivered(self, memory: ClockMemory, num_ues: int) -> BoolArray:
        """Nobody: an update is charged in full when its edge is called."""
        del memory
        return np.zeros(num_ues, dtype=np.bool_)

    def remaining(
        self, memory: ClockMemory, whole: Work, *, members: IntArray, edges: BoolArray
    ) -> tuple[Work, ClockMemory]:
        """All of it, always."""
        del members, edges
        return whole, memory

    def advance(self, memory: ClockMemory, interval: Span) -> Progress:
        """All scheduled edges arrive, but for those whose uploads fail."""
        links = interval.links
        called = interval.plan.scheduled[links.edge_of_ue]
        left = Left(
            compute_s=np.where(called, links.compute_s, 0.0),
            ue_bits=links.ue_bits,
            edge_bits=links.edge_bits,
            heard=(links.ue_bits == 0) & ((links.compute_s == 0) | ~called),
            lost=np.zeros_like(called),
        )
        return played(interval, left, self.settings, memory)[1]
