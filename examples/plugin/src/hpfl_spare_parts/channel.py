"""Channel `correlated-shadowing`: log-normal shadowing that neighbours share, on top of path loss and fading.

The shadowing in dB is a Gaussian field over the plane with correlation `exp(-d / D)` (Gudmundson, 1991), made of plane
waves whose wave numbers are drawn from the field's spectrum, so that a place has its value whoever asks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpfl import part
from hpfl.network import ChannelSettings, Gains, Places, rayleigh
from hpfl.options import Options, option
from hpfl.rng import Streams

_WAVES = 512


class ShadowingOptions(Options):
    """Options of channel `correlated-shadowing`."""

    sigma_db: float = option(8.0, "standard deviation of the shadowing", unit="dB", ge=0)
    distance_m: float = option(50.0, "distance D at which the correlation is 1/e", unit="m", gt=0)


@part(options=ShadowingOptions)
@dataclass(frozen=True)
class CorrelatedShadowing:
    """Path loss, Rayleigh fading, and shadowing with correlation exp(-d / D)."""

    settings: ChannelSettings
    options: ShadowingOptions

    def gains(self, block: int, places: Places, streams: Streams) -> Gains:
        """Power gains of all links during fade number `block`; the shadowing of a place stays."""
        ue = self.settings.ue_path.gain(places.ue_distance_m, streams.at("path/ue"))
        edge = self.settings.edge_path.gain(places.edge_distance_m, streams.at("path/edge"))
        ue = ue * rayleigh(streams.at("fading/ue", block), ue.size) * self.shadow("ue", places.ue_xy_m, streams)
        edge = edge * rayleigh(streams.at("fading/edge", block), edge.size)
        return Gains(ue, edge * self.shadow("edge", places.edge_xy_m, streams))

    def shadow(self, hop: str, xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """Factors of power (linear) at places [n, 2]."""
        far, angle, phase = streams.at(f"shadowing/{hop}").uniform(3 * _WAVES).reshape(3, _WAVES)
        number = np.sqrt((1.0 - far) ** -2.0 - 1.0) / self.options.distance_m  # spectrum (1 / D^2 + k^2)^(-3/2)
        waves = number * np.exp(2j * np.pi * angle)
        field_db = np.zeros(len(xy_m))
        for wave, start in zip(waves, 2.0 * np.pi * phase, strict=True):
            field_db += np.cos(wave.real * xy_m[:, 0] + wave.imag * xy_m[:, 1] + start)
        return np.power(10.0, self.options.sigma_db * np.sqrt(2.0 / _WAVES) * field_db / 10.0)
