"""Path losses by name: each makes the mean gain by distance of one hop, UEs to edges or edges to the cloud."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hpfl.arrays import FloatArray
from hpfl.registry import Registry, part
from hpfl.rng import Stream
from hpfl.units import db_to_linear


class PathGain(Protocol):
    """Mean power gain of links by their distance; what a link keeps for good may be drawn from a stream."""

    def gain(self, distance_m: FloatArray, stream: Stream) -> FloatArray:
        """Mean power gain (linear) of one link per distance."""
        ...


@dataclass(frozen=True, kw_only=True)
class Site:
    """What is known of a hop: gain at one metre (dB), its exponent, carrier (GHz), height of who sends (m)."""

    gain_db: float
    exponent: float
    carrier_ghz: float
    terminal_m: float


PathLossMaker = Callable[..., PathGain]
"""From a `Site` (and `options`, where the path loss has some) to its gain by distance."""

PATH_LOSSES: Registry[PathLossMaker] = Registry(
    "path loss",
    plural="path losses",
    traits={"reads": None},
    called=("site",),
    made=("gain",),
    shipped={
        "power-law": "hpfl.network.path_losses:power_law",
        "umi": "hpfl.network.tr38901:umi",
        "uma": "hpfl.network.tr38901:uma",
        "sionna-umi": "hpfl.network.sionna_paths:sionna_umi",
        "sionna-uma": "hpfl.network.sionna_paths:sionna_uma",
    },
)
"""Trait `reads`: which of `gain_db`, `exponent` and `carrier_ghz` matter to it (None: all may)."""


@dataclass(frozen=True, kw_only=True)
class PathLoss:
    """`gain = o * d^-exponent`, with `o` the gain at one metre (linear)."""

    gain_at_1m_linear: float
    exponent: float

    def gain(self, distance_m: FloatArray, stream: Stream | None = None) -> FloatArray:
        """Mean power gain at a distance."""
        del stream
        return self.gain_at_1m_linear * distance_m**-self.exponent


@part(reads=("gain_db", "exponent"))
def power_law(site: Site) -> PathLoss:
    """The paper's: a gain at one metre that falls with a power of the distance."""
    return PathLoss(gain_at_1m_linear=db_to_linear(site.gain_db), exponent=site.exponent)
