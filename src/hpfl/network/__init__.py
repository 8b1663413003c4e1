"""The radio and the machines, as arrays: who is there, how far, how fast; what a channel of one's own needs is here."""

from hpfl.network.channel import CHANNELS, FADINGS, Channel, ChannelSettings, Fading, Gains, rayleigh
from hpfl.network.latency import compute_s, rate_bps, upload_s
from hpfl.network.links import Links
from hpfl.network.path_losses import PATH_LOSSES, PathGain, PathLoss, Site
from hpfl.network.places import Places, Positions
from hpfl.network.topology import Fleet

__all__ = [
    "CHANNELS",
    "FADINGS",
    "PATH_LOSSES",
    "Channel",
    "ChannelSettings",
    "Fading",
    "Fleet",
    "Gains",
    "Links",
    "PathGain",
    "PathLoss",
    "Places",
    "Positions",
    "Site",
    "compute_s",
    "rate_bps",
    "rayleigh",
    "upload_s",
]
