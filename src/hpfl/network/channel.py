"""Channel power gains: path loss by distance, and small-scale fading drawn anew each round (paper, section 7.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.registry import Registry
from hpfl.rng import Stream

Fading = Callable[[Stream, int], FloatArray]
"""Unit-mean power factors of `count` links, drawn from one stream."""

FADINGS: Registry[Fading] = Registry("fading")

CHANNELS: Registry[Callable[..., Fading]] = Registry("channel")

if TYPE_CHECKING:
    from hpfl.network.options import FadingOptions

_LEAST_FACTOR = 1e-12  # a draw of exactly zero would be a link that never delivers; 120 dB down is deep enough


class PathGain(Protocol):
    """Mean power gain of links by their distance; what a link keeps for good may be drawn from a stream."""

    def gain(self, distance_m: FloatArray, stream: Stream) -> FloatArray:
        """Mean power gain (linear) of one link per distance."""
        ...


@dataclass(frozen=True, kw_only=True)
class PathLoss:
    """`gain = o * d^-exponent`, with `o` the gain at one metre (linear)."""

    gain_at_1m_linear: float
    exponent: float

    def gain(self, distance_m: FloatArray, stream: Stream | None = None) -> FloatArray:
        """Mean power gain at a distance."""
        del stream
        return self.gain_at_1m_linear * distance_m**-self.exponent


@FADINGS.register("rayleigh")
def rayleigh(stream: Stream, count: int) -> FloatArray:
    """Rayleigh amplitude, so the power gain is exponential with mean one (see docs/errata.md, row 11)."""
    return np.maximum(stream.exponential(count), _LEAST_FACTOR)


@FADINGS.register("none")
def no_fading(_stream: Stream, count: int) -> FloatArray:
    """Path loss alone."""
    return np.ones(count)


@CHANNELS.register("path-loss-and-fading", options="hpfl.network.options:FadingOptions")
def path_loss_and_fading(*, options: "FadingOptions") -> Fading:
    """Path loss by distance times small-scale fading, drawn anew in every block for every link by itself."""
    return FADINGS.get(options.fading)
