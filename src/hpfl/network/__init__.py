"""The radio and the machines, as arrays: who is there, how far, how fast."""

from hpfl.network.channel import CHANNELS, FADINGS, Channel, ChannelSettings, Fading, Gains
from hpfl.network.path_losses import PATH_LOSSES, PathGain, Site
from hpfl.network.places import Places, Positions

__all__ = [
    "CHANNELS",
    "FADINGS",
    "PATH_LOSSES",
    "Channel",
    "ChannelSettings",
    "Fading",
    "Gains",
    "PathGain",
    "Places",
    "Positions",
    "Site",
]
