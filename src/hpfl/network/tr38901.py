"""Path loss of 3GPP TR 38.901 (V16.1.0, Table 7.4.1-1 and 7.4.2-1): urban micro (street canyon) and urban macro.

Distances are on the ground in metres, carrier in GHz, heights in metres, path loss in dB. A link is in line of sight
where its own uniform draw, made once, lies below the probability of that at its distance.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.path_losses import Site
from hpfl.registry import part
from hpfl.rng import Stream

BASE_HEIGHT_M = {"umi": 10.0, "uma": 25.0}
"""Antennas of base stations, Table 7.2-1."""
_LIGHT_M_PER_S = 3.0e8  # the value the standard computes break points with
_NEAREST_M = 10.0  # its formulas hold from 10 m on; nearer links are given the path loss at 10 m


@dataclass(frozen=True, kw_only=True)
class UrbanPathLoss:
    """UMi (street canyon) or UMa; `sight` fixes whether links are in line of sight, None draws it for each."""

    scenario: Literal["umi", "uma"]
    carrier_ghz: float
    base_m: float
    terminal_m: float = 1.5
    sight: bool | None = None

    def gain(self, distance_m: FloatArray, stream: Stream) -> FloatArray:
        """Mean power gain (linear) at ground distances, one link each."""
        ground_m = np.maximum(distance_m, _NEAREST_M)
        sees = np.full(ground_m.shape, self.sight or False)
        if self.sight is None:
            sees = stream.uniform(ground_m.size) < sight_probability(self.scenario, ground_m)
        return np.asarray(10.0 ** (-0.1 * self.loss_db(ground_m, sees)), dtype=np.float64)

    def loss_db(self, ground_m: FloatArray, sees: BoolArray) -> FloatArray:
        """Path loss of Table 7.4.1-1, without shadow fading."""
        space_m = np.hypot(ground_m, self.base_m - self.terminal_m)
        if self.scenario == "umi":
            clear, slope, blocked = _umi(space_m, self)
        else:
            clear, slope, blocked = _uma(space_m, self)
        in_sight = np.where(ground_m <= self.break_m, clear, slope)
        return np.where(sees, in_sight, np.maximum(in_sight, blocked))

    @property
    def break_m(self) -> float:
        """Break point distance `4 h'_BS h'_UT f / c`, effective heights one metre lower."""
        return 4.0 * (self.base_m - 1.0) * (self.terminal_m - 1.0) * self.carrier_ghz * 1e9 / _LIGHT_M_PER_S


@part(reads=("carrier_ghz",))
def umi(site: Site) -> UrbanPathLoss:
    """3GPP TR 38.901, urban micro: street canyon."""
    return _urban("umi", site)


@part(reads=("carrier_ghz",))
def uma(site: Site) -> UrbanPathLoss:
    """3GPP TR 38.901, urban macro."""
    return _urban("uma", site)


def _urban(scenario: Literal["umi", "uma"], site: Site) -> UrbanPathLoss:
    base_m = BASE_HEIGHT_M[scenario]
    return UrbanPathLoss(scenario=scenario, carrier_ghz=site.carrier_ghz, base_m=base_m, terminal_m=site.terminal_m)


def sight_probability(scenario: str, ground_m: FloatArray) -> FloatArray:
    """Probability of line of sight, Table 7.4.2-1, for terminals below 13 m."""
    fade_m = 36.0 if scenario == "umi" else 63.0
    far_m = np.maximum(ground_m, 18.0)
    return np.where(ground_m <= 18.0, 1.0, 18.0 / far_m + np.exp(-far_m / fade_m) * (1.0 - 18.0 / far_m))


def _umi(space_m: FloatArray, law: UrbanPathLoss) -> tuple[FloatArray, FloatArray, FloatArray]:
    """PL1, PL2 and PL' (NLOS) of UMi street canyon."""
    carrier, heights = np.log10(law.carrier_ghz), law.base_m - law.terminal_m
    near = 32.4 + 21.0 * np.log10(space_m) + 20.0 * carrier
    far = 32.4 + 40.0 * np.log10(space_m) + 20.0 * carrier - 9.5 * np.log10(law.break_m**2 + heights**2)
    blocked = 35.3 * np.log10(space_m) + 22.4 + 21.3 * carrier - 0.3 * (law.terminal_m - 1.5)
    return near, far, blocked


def _uma(space_m: FloatArray, law: UrbanPathLoss) -> tuple[FloatArray, FloatArray, FloatArray]:
    """PL1, PL2 and PL' (NLOS) of UMa."""
    carrier, heights = np.log10(law.carrier_ghz), law.base_m - law.terminal_m
    near = 28.0 + 22.0 * np.log10(space_m) + 20.0 * carrier
    far = 28.0 + 40.0 * np.log10(space_m) + 20.0 * carrier - 9.0 * np.log10(law.break_m**2 + heights**2)
    blocked = 13.54 + 39.08 * np.log10(space_m) + 20.0 * carrier - 0.6 * (law.terminal_m - 1.5)
    return near, far, blocked
