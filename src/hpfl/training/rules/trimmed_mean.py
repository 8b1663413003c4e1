"""Rule `trimmed-mean`: in every coordinate the mean without the least and the largest values."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.rules.rows import columns, of_finite

_ROUNDING = 1e-9  # 0.29 of 100 are 29


class TrimmedMeanOptions(Options):
    """How much is cut off."""

    share: float = option(0.2, "share of the values cut off at either end, rounded down", gt=0, lt=0.5)


def cut_of(count: int, options: TrimmedMeanOptions) -> int:
    """How many of `count` values are cut off at either end."""
    return math.floor(options.share * count + _ROUNDING)


def fewest(options: TrimmedMeanOptions) -> int:
    """From how many updates on it cuts anything off."""
    return math.ceil(1 / options.share - _ROUNDING)


@part(options=TrimmedMeanOptions, weighs=False, needs=fewest)
@of_finite
def trimmed_mean(contributions: Sequence[Contribution], state: RuleState, *, options: TrimmedMeanOptions) -> Combined:
    """In every coordinate the mean of what is left without a share b at either end (Yin et al., 2018).

    `d_j = 1 / ((1 - 2 b) n) sum of u_ij over the values that are left`: Definition 2 of "Byzantine-robust distributed
    learning: towards optimal statistical rates", ICML 2018, for up to b n hostile members. In a round in which fewer
    than 1 / b updates come, none is cut off: then it is the plain mean. Weights are not read.
    """
    count, length = len(contributions), contributions[0].update.numel()
    cut = cut_of(count, options)
    direction, left = torch.empty(length, dtype=torch.float64), np.zeros(count)
    for part_of, values in columns(contributions):
        ordered, index = values.sort(dim=1, stable=True)
        direction[part_of] = ordered[:, cut : count - cut].to(torch.float64).mean(dim=1).cpu()
        left += torch.bincount(index[:, cut : count - cut].flatten(), minlength=count).cpu().numpy()
    return Combined(direction.to(contributions[0].update.device), left / (length * (count - 2 * cut)), state)
