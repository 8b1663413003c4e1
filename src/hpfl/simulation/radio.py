"""The channel a run sees: path loss on both hops and fading by blocks, drawn or read from a trace."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray
from hpfl.network.channel import Fading, PathGain
from hpfl.network.topology import Fleet
from hpfl.rng import Streams

Recorder = Callable[[str, tuple[int, int], NDArray[Any]], None]
"""Told what was drawn: its name, the round and the part of it (its coherence blocks, from 0), one value per member."""

Recorded = Callable[[tuple[int, int]], FloatArray]
"""What a trace holds for a part of a round, one value per member."""


class Moment(NamedTuple):
    """A part of a round (0 when it begins) and the number of the fade that lasts then."""

    round: int
    part: int
    block: int

    @property
    def key(self) -> tuple[int, int]:
        """Where a trace has it."""
        return self.round, self.part


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

    def moment(self, round_number: int, time_s: float, later: int = 0, *, began_s: float | None = None) -> Moment:
        """The fade at `time_s`, or the one `later` blocks on; parts are counted from `began_s` (None: `time_s`)."""
        now = self._block(round_number, time_s) + later
        return Moment(round_number, now - self._block(round_number, time_s if began_s is None else began_s), now)

    def gains(
        self, moment: Moment, fleet: Fleet, streams: Streams, *, members: IntArray, distance_m: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Power gains of the members' links and of all backhauls; `distance_m` is over all UEs."""
        ue_gain = self._ue_gain(moment, fleet, streams, members=members, distance_m=distance_m)
        if self.edge_gain is not None:
            edge_gain = self.edge_gain(moment.key)
        else:
            fade = self.fading(streams.at("fading/edge", moment.block), fleet.num_edges)
            edge_gain = self.edge_path.gain(fleet.edge_distance_m, streams.at("path/edge")) * fade
        if self.record is not None:
            self.record("edge_gain", moment.key, edge_gain)
        return ue_gain, edge_gain

    def _block(self, round_number: int, time_s: float) -> int:
        return math.floor(time_s / self.coherence_s) if self.coherence_s else round_number // self.coherence_rounds

    def _ue_gain(
        self, moment: Moment, fleet: Fleet, streams: Streams, *, members: IntArray, distance_m: FloatArray
    ) -> FloatArray:
        if self.ue_gain is not None:
            everyone = self.ue_gain(moment.key)
        else:
            fade = self.fading(streams.at("fading/ue", moment.block), fleet.num_ues)
            everyone = self.ue_path.gain(distance_m, streams.at("path/ue")) * fade
        if self.record is not None:
            self.record("ue_gain", moment.key, everyone)
        return everyone[members]
