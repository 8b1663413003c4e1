"""A channel from outside: log-normal shadowing that near places share, as a sum of random plane waves.

Waves whose numbers (rad/m) are drawn from the two-dimensional Cauchy law of scale 1/d have a correlation of
exp(-distance/d), since that is its characteristic function; each wave's draws have an address of their own.
"""

from dataclasses import dataclass

import numpy as np

from hpfl.network import CHANNELS, Channel, ChannelSettings, Gains, Places
from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.rng import Streams

WAVES = 64


class ShadowingOptions(Options):
    """Options of the shadowed channel."""

    deviation_db: float = option(8.0, "standard deviation of the shadowing", unit="dB", ge=0)
    correlation_m: float = option(50.0, "distance at which its correlation is 1/e", unit="m", gt=0)
    fading: str = option("none", "small-scale fading")


@dataclass(frozen=True, kw_only=True)
class Shadowed:
    """Another channel's gains, weaker or stronger by where the UE is, for good."""

    bare: Channel
    options: ShadowingOptions

    def gains(self, block: int, places: Places, streams: Streams) -> Gains:
        ue, edge = self.bare.gains(block, places, streams)
        return Gains(ue=ue * 10.0 ** (0.1 * self.shadow_db(places.ue_xy_m, streams)), edge=edge)

    def shadow_db(self, xy_m, streams):
        lots = {what: streams.at(f"shadowing/{what}").uniform(WAVES) for what in ("number", "angle", "phase")}
        number = np.sqrt((1.0 - lots["number"]) ** -2.0 - 1.0) / self.options.correlation_m
        angle, phase = 2.0 * np.pi * lots["angle"], 2.0 * np.pi * lots["phase"]
        waves = np.cos(xy_m @ (number * np.stack([np.cos(angle), np.sin(angle)])) + phase)
        return self.options.deviation_db * np.sqrt(2.0 / WAVES) * waves.sum(axis=1)


@part(options=ShadowingOptions)
def shadowed(settings: ChannelSettings, *, options: ShadowingOptions) -> Shadowed:
    """Path loss and fading, and log-normal shadowing that falls with distance as exp(-d/correlation_m)."""
    return Shadowed(bare=CHANNELS.get("path-loss-and-fading", fading=options.fading)(settings), options=options)
