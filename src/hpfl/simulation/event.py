"""Clock `event`: continuous virtual time, in which work carries over from one plan to the next (`Z_t^k <= Z`)."""

from dataclasses import replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.registry import part
from hpfl.simulation.forecast import Left
from hpfl.simulation.segments import played
from hpfl.training.clock import ClockMemory, ClockSettings, Progress, Span, Work

_COMPUTE, _UE_BITS, _EDGE_BITS = "compute_s", "ue_bits", "edge_bits"


@part(continuous=True)
class EventClock:
    """Remembers every UE's seconds and bits and every edge's bits still to go (section 3.2, `Z_t^k`).

    Computing goes on everywhere; only links in the plan carry bits; bandwidths stay until the next aggregation.
    """

    def __init__(self, settings: ClockSettings) -> None:
        self.settings = settings

    def delivered(self, memory: ClockMemory, num_ues: int) -> BoolArray:
        """UEs with nothing left to send."""
        bits = memory.get(_UE_BITS)
        return np.zeros(num_ues, dtype=np.bool_) if bits is None else bits == 0

    def remaining(
        self, memory: ClockMemory, whole: Work, *, members: IntArray, edges: BoolArray
    ) -> tuple[Work, ClockMemory]:
        """What the last interval left, and all of it for those that start anew."""
        if _UE_BITS not in memory:
            memory = dict(memory) | {name: np.zeros_like(value) for name, value in vars(whole).items()}
        compute_s, ue_bits, edge_bits = (memory[name].copy() for name in (_COMPUTE, _UE_BITS, _EDGE_BITS))
        compute_s[members], ue_bits[members] = whole.compute_s[members], whole.ue_bits[members]
        edge_bits[edges] = whole.edge_bits[edges]
        work = Work(compute_s=compute_s, ue_bits=ue_bits, edge_bits=edge_bits)
        return work, dict(memory) | vars(work)

    def wait(self, memory: ClockMemory, seconds: float, members: IntArray) -> tuple[ClockMemory, FloatArray]:
        """The memory after the band was used otherwise: uploads paused, these UEs went on computing for so long."""
        left_s = memory[_COMPUTE].copy()
        left_s[members] = np.maximum(left_s[members] - seconds, 0.0)
        return dict(memory) | {_COMPUTE: left_s}, memory[_COMPUTE] - left_s

    def advance(self, memory: ClockMemory, interval: Span) -> Progress:
        """The plan acts until the trigger fires; what is in flight stays so."""
        links = interval.links
        left = Left(
            compute_s=links.compute_s,
            ue_bits=links.ue_bits,
            edge_bits=links.edge_bits,
            heard=(links.ue_bits == 0) & ((links.compute_s == 0) | bool(interval.whole_edge_bits.any())),
            lost=np.zeros(links.ue_bits.size, dtype=np.bool_),
        )
        left, progress = played(interval, left, self.settings, memory)
        after = {name: memory[name].copy() for name in (_COMPUTE, _UE_BITS)}
        after[_COMPUTE][links.members], after[_UE_BITS][links.members] = left.compute_s, left.ue_bits
        return replace(progress, memory=dict(memory) | after | {_EDGE_BITS: left.edge_bits})
