"""The channel a run sees: path loss on both hops and fading by blocks, drawn or read from a trace."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpfl.network.channel import Fading, PathGain
from hpfl.network.topology import Fleet
from hpfl.rng import Streams

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Recorder = Callable[[str, int, NDArray[np.float64] | NDArray[np.bool_]], None]
"""Told what was drawn: its name, the round or coherence block, one value per member."""

Recorded = Callable[[int], FloatArray]
"""What a trace holds for a round or coherence block, one value per member."""


@dataclass(frozen=True, kw_only=True)
class Radio:
    """Path loss and fading of both hops, noise (W/Hz), and how long a fade lasts: rounds, or (where not 0) seconds."""

    ue_path: PathGain
    edge_path: PathGain
    fading: Fading
    noise_w_per_hz: float
    coherence_rounds: int = 1
    coherence_s: float = 0.0
    ue_gain: Recorded | None = None
    edge_gain: Recorded | None = None
    record: Recorder | None = None

    def block(self, round_number: int, time_s: float) -> int:
        """The number of the fade that a plan made now will meet."""
        if self.coherence_s:
            return math.floor(time_s / self.coherence_s)
        return round_number // self.coherence_rounds

    def gains(
        self, block: int, fleet: Fleet, streams: Streams, *, members: IntArray, distance_m: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Power gains of the members' links and of all backhauls; `distance_m` is over all UEs."""
        ue_gain = self._ue_gain(block, fleet, streams, members=members, distance_m=distance_m)
        if self.edge_gain is not None:
            edge_gain = self.edge_gain(block)
        else:
            fade = self.fading(streams.at("fading/edge", block), fleet.num_edges)
            edge_gain = self.edge_path.gain(fleet.edge_distance_m, streams.at("path/edge")) * fade
        if self.record is not None:
            self.record("edge_gain", block, edge_gain)
        return ue_gain, edge_gain

    def _ue_gain(
        self, block: int, fleet: Fleet, streams: Streams, *, members: IntArray, distance_m: FloatArray
    ) -> FloatArray:
        if self.ue_gain is not None:
            everyone = self.ue_gain(block)
        else:
            fade = self.fading(streams.at("fading/ue", block), fleet.num_ues)
            everyone = self.ue_path.gain(distance_m, streams.at("path/ue")) * fade
        if self.record is not None:
            self.record("ue_gain", block, everyone)
        return everyone[members]
