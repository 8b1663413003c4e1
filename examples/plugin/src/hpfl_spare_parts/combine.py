"""Combine rule `middle-mean`: coordinate by coordinate, the mean without the farthest values (Yin et al., 2018)."""

import math
from collections.abc import Sequence

import torch

from hpfl import part
from hpfl.options import Options, option
from hpfl.training import Combined, Contribution, RuleState


class TrimOptions(Options):
    """Options of combine rule `middle-mean`."""

    trim: float = option(0.2, "share of the members left out at each end, rounded up", ge=0, lt=0.5)


@part(options=TrimOptions, streams=False)
def trimmed_mean(contributions: Sequence[Contribution], state: RuleState, *, options: TrimOptions) -> Combined:
    """The plain mean of what is left in every coordinate without its least and its greatest values."""
    values = torch.stack([one.update for one in contributions]).double()
    count = len(values)
    cut = min(math.ceil(options.trim * count), (count - 1) // 2)  # at least one is left
    rank = values.argsort(dim=0, stable=True).argsort(dim=0)
    left = (rank >= cut) & (rank < count - cut)
    direction = torch.where(left, values, 0.0).sum(dim=0) / (count - 2 * cut)
    shares = left.double().mean(dim=1) / (count - 2 * cut)
    return Combined(direction, shares.cpu().numpy(), state)
