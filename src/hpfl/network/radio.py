"""The radio a run sees: a channel, how long each of its fades lasts, and gains read from a trace or written to one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray, IntArray
from hpfl.network.channel import Channel, Gains
from hpfl.network.places import Places
from hpfl.rng import Streams

Recorder = Callable[[str, tuple[int, int], NDArray[Any]], None]
"""Told what was drawn: its name, the round and the part of it (its coherence blocks, from 0), one value per member."""

Recorded = Callable[[tuple[int, int]], FloatArray]
"""What a trace holds for a part of a round, one value per member."""


class ChannelError(ValueError):
    """A channel gave what no radio can have."""


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
    """A channel, its noise (W/Hz), and how long a fade lasts: rounds, or (where not 0) seconds.

    `ue_gain` and `edge_gain` are a trace's, instead of the channel's; `record` is told of all gains.
    """

    channel: Channel
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

    def gains(self, moment: Moment, places: Places, streams: Streams, *, members: IntArray) -> Gains:
        """Power gains of the members' links and of all backhauls."""
        ue, edge = self._everyones(moment, places, streams)
        if self.record is not None:
            self.record("ue_gain", moment.key, ue)
            self.record("edge_gain", moment.key, edge)
        return Gains(ue=ue[members], edge=edge)

    def _block(self, round_number: int, time_s: float) -> int:
        return math.floor(time_s / self.coherence_s) if self.coherence_s else round_number // self.coherence_rounds

    def _everyones(self, moment: Moment, places: Places, streams: Streams) -> Gains:
        if self.ue_gain is not None and self.edge_gain is not None:
            return Gains(ue=self.ue_gain(moment.key), edge=self.edge_gain(moment.key))
        drawn = self.channel.gains(moment.block, places, streams)
        return Gains(
            ue=_checked("UE", drawn.ue, places.num_ues) if self.ue_gain is None else self.ue_gain(moment.key),
            edge=_checked("edge", drawn.edge, places.num_edges)
            if self.edge_gain is None
            else self.edge_gain(moment.key),
        )


def _checked(who: str, gain: FloatArray, count: int) -> FloatArray:
    """The gains of a channel, which may be anybody's: one per link, positive and finite."""
    if gain.shape != (count,):
        raise ChannelError(f"the channel gave {who} gains of shape {gain.shape}; there are {count} links")
    if not (gain.min() > 0 and gain.max() < np.inf):
        worst = int(np.flatnonzero(~((gain > 0) & (gain < np.inf)))[0])
        raise ChannelError(f"the channel gave {who} {worst} the gain {gain[worst]}; wanted a positive, finite number")
    return gain
