"""The channel: power gains of all links at a moment, from where everything is and from addressed randomness.

The paper's (section 7.1) is path loss by distance times small-scale fading, which each link draws anew in each block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.network.path_losses import PathGain
from hpfl.network.places import Places
from hpfl.registry import Registry
from hpfl.rng import Stream, Streams

if TYPE_CHECKING:
    from hpfl.network.channel_options import FadingOptions

Fading = Callable[[Stream, int], FloatArray]
"""Unit-mean power factors of `count` links, drawn from one stream."""

FADINGS: Registry[Fading] = Registry("fading", called=("stream", "count"))

_LEAST_FACTOR = 1e-12  # a draw of exactly zero would be a link that never delivers; 120 dB down is deep enough


class Gains(NamedTuple):
    """Linear power gains between UEs and their edges, and between all edges and the cloud."""

    ue: FloatArray
    edge: FloatArray


class Channel(Protocol):
    """What the radio does between two places; it keeps nothing, so that every gain can be drawn anew."""

    def gains(self, block: int, places: Places, streams: Streams) -> Gains:
        """Gains of all links (ue [N], edge [K]) during fade number `block`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ChannelSettings:
    """What every channel is given: the mean gain by distance of both hops, which it may use or not."""

    ue_path: PathGain
    edge_path: PathGain


ChannelMaker = Callable[..., Channel]
"""From `ChannelSettings` (and `options`, where the channel has some) to a channel."""

CHANNELS: Registry[ChannelMaker] = Registry("channel", called=("settings",), made=("gains",))


@dataclass(frozen=True, kw_only=True)
class PathLossAndFading:
    """Path loss by distance times fading; nothing but its distance tells one link from another."""

    settings: ChannelSettings
    fading: Fading

    def gains(self, block: int, places: Places, streams: Streams) -> Gains:
        """Means by distance, faded anew in each block."""
        ue_fade = self.fading(streams.at("fading/ue", block), places.num_ues)
        edge_fade = self.fading(streams.at("fading/edge", block), places.num_edges)
        return Gains(
            ue=self.settings.ue_path.gain(places.ue_distance_m, streams.at("path/ue")) * ue_fade,
            edge=self.settings.edge_path.gain(places.edge_distance_m, streams.at("path/edge")) * edge_fade,
        )


@CHANNELS.register("path-loss-and-fading", options="hpfl.network.channel_options:FadingOptions")
def path_loss_and_fading(settings: ChannelSettings, *, options: "FadingOptions") -> PathLossAndFading:
    """Path loss by distance times small-scale fading, drawn anew in every block for every link by itself."""
    return PathLossAndFading(settings=settings, fading=FADINGS.get(options.fading))


@FADINGS.register("rayleigh")
def rayleigh(stream: Stream, count: int) -> FloatArray:
    """Rayleigh amplitude, so the power gain is exponential with mean one (see docs/errata.md, row 11)."""
    return np.maximum(stream.exponential(count), _LEAST_FACTOR)


@FADINGS.register("none")
def no_fading(_stream: Stream, count: int) -> FloatArray:
    """Path loss alone."""
    return np.ones(count)
