"""Combine rule `trimmed-mean`: coordinate by coordinate, the mean without the farthest values (Yin et al., 2018)."""

import math

import torch

from hpfl import part
from hpfl.options import Options, option
from hpfl.training import Combined


class TrimOptions(Options):
    """Options of combine rule `trimmed-mean`."""

    trim: float = option(0.2, "share of the members left out at each end, rounded up", ge=0, lt=0.5)


@part(options=TrimOptions, streams=False)
def trimmed_mean(contributions, state, *, options: TrimOptions) -> Combined:
    """The mean of what is left in every coordinate once the least and the greatest values are taken away."""
    rows = sorted(range(len(contributions)), key=lambda i: contributions[i].member)
    values = torch.stack([contributions[i].update for i in rows]).to(torch.float64)
    cut = min(math.ceil(options.trim * len(rows)), (len(rows) - 1) // 2)
    ranks = values.argsort(dim=0, stable=True).argsort(dim=0)
    kept = (ranks >= cut) & (ranks < len(rows) - cut)
    share = torch.empty(len(rows), dtype=torch.float64)
    share[rows] = kept.to(torch.float64).mean(dim=1) / (len(rows) - 2 * cut)
    direction = torch.where(kept, values, 0.0).sum(dim=0) / (len(rows) - 2 * cut)
    return Combined(direction, share.numpy(), state)
