"""Path losses by name: each makes the mean gain by distance of a hop, from UEs to edges or from edges to the cloud."""

from collections.abc import Callable
from dataclasses import dataclass

from hpfl.network.channel import PathGain, PathLoss
from hpfl.registry import Registry, part
from hpfl.units import db_to_linear


@dataclass(frozen=True, kw_only=True)
class Site:
    """What is known of a hop: gain at one metre (dB), its exponent, carrier (GHz), the terminals' height (m)."""

    gain_db: float
    exponent: float
    carrier_ghz: float
    terminal_m: float


PathLossMaker = Callable[[Site], PathGain]

PATH_LOSSES: Registry[PathLossMaker] = Registry(
    "path loss",
    plural="path losses",
    traits={"reads": None},
    shipped={
        "power-law": "hpfl.network.path_losses:power_law",
        "umi": "hpfl.network.tr38901:umi",
        "uma": "hpfl.network.tr38901:uma",
        "sionna-umi": "hpfl.network.sionna_paths:sionna_umi",
        "sionna-uma": "hpfl.network.sionna_paths:sionna_uma",
    },
)
"""Trait `reads`: which of `gain_db`, `exponent` and `carrier_ghz` matter to it (None: all may)."""


@part(reads=("gain_db", "exponent"))
def power_law(site: Site) -> PathLoss:
    """The paper's: a gain at one metre that falls with a power of the distance."""
    return PathLoss(gain_at_1m_linear=db_to_linear(site.gain_db), exponent=site.exponent)
