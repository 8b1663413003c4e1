"""The radio and the machines, as arrays: who is there, how far, how fast; what a channel of one's own needs is here."""

from hpfl.network.channel import FADINGS, Fading, PathGain, PathLoss
from hpfl.network.latency import compute_s, rate_bps, upload_s
from hpfl.network.links import Links
from hpfl.network.topology import Fleet

__all__ = [
    "FADINGS",
    "Fading",
    "Fleet",
    "Links",
    "PathGain",
    "PathLoss",
    "compute_s",
    "rate_bps",
    "upload_s",
]
