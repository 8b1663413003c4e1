"""Path loss of 3GPP TR 38.901 as Sionna computes it; needs the package `sionna-no-rt`, an optional extra."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.network.path_losses import Site
from hpfl.network.tr38901 import BASE_HEIGHT_M, sight_probability
from hpfl.registry import part
from hpfl.rng import Stream

_NEAREST_M = 10.0


class SionnaUnavailableError(ImportError):
    """Sionna is an optional extra, and is not installed."""


@dataclass(frozen=True, kw_only=True)
class SionnaPathLoss:
    """UMi or UMa by Sionna; who is in line of sight is drawn as in `UrbanPathLoss`, so that both can be compared."""

    scenario: Literal["umi", "uma"]
    carrier_ghz: float
    base_m: float
    terminal_m: float = 1.5

    def gain(self, distance_m: FloatArray, stream: Stream) -> FloatArray:
        """Mean power gain (linear) at ground distances, one link each."""
        ground_m = np.maximum(distance_m, _NEAREST_M)
        sees = stream.uniform(ground_m.size) < sight_probability(self.scenario, ground_m)
        return np.asarray(10.0 ** (-0.1 * self.loss_db(ground_m, sees)), dtype=np.float64)

    def loss_db(self, ground_m: FloatArray, sees: BoolArray) -> FloatArray:
        """Basic path loss without shadow fading: one base station, the terminals on a line from it."""
        try:
            import torch
            from sionna.phy.channel.tr38901 import PanelArray, UMaScenario, UMiScenario
        except ImportError as error:
            raise SionnaUnavailableError(
                "path losses sionna-umi and sionna-uma need: pip install sionna-no-rt"
            ) from error
        common: dict[str, Any] = {"precision": "double", "device": "cpu"}
        array = PanelArray(
            num_rows_per_panel=1,
            num_cols_per_panel=1,
            polarization="single",
            polarization_type="V",
            antenna_pattern="omni",
            carrier_frequency=self.carrier_ghz * 1e9,
            **common,
        )
        kind = UMiScenario if self.scenario == "umi" else UMaScenario
        world = kind(self.carrier_ghz * 1e9, "low", array, array, "uplink", **common)
        count = ground_m.size
        terminals = np.column_stack([ground_m, np.zeros(count), np.full(count, self.terminal_m)])
        still = torch.zeros((1, count, 3), dtype=torch.float64)
        one = torch.zeros((1, 1, 3), dtype=torch.float64)
        world.set_topology(
            ut_loc=torch.from_numpy(terminals)[None],
            bs_loc=torch.tensor([[[0.0, 0.0, self.base_m]]], dtype=torch.float64),
            ut_orientations=still,
            bs_orientations=one,
            ut_velocities=still,
            in_state=torch.zeros((1, count), dtype=torch.bool),
            los=torch.from_numpy(sees)[None, None],
        )
        return np.asarray(world.basic_pathloss[0, 0].numpy(), dtype=np.float64)


@part(reads=("carrier_ghz",))
def sionna_umi(site: Site) -> SionnaPathLoss:
    """3GPP TR 38.901, urban micro, as Sionna computes it (an optional extra)."""
    return _by_sionna("umi", site)


@part(reads=("carrier_ghz",))
def sionna_uma(site: Site) -> SionnaPathLoss:
    """3GPP TR 38.901, urban macro, as Sionna computes it (an optional extra)."""
    return _by_sionna("uma", site)


def _by_sionna(scenario: Literal["umi", "uma"], site: Site) -> SionnaPathLoss:
    if find_spec("sionna") is None:
        raise SionnaUnavailableError(
            f"path loss sionna-{scenario} needs Sionna: pip install sionna-no-rt; {scenario} does without"
        )
    base_m = BASE_HEIGHT_M[scenario]
    return SionnaPathLoss(scenario=scenario, carrier_ghz=site.carrier_ghz, base_m=base_m, terminal_m=site.terminal_m)
