"""Rule `median`: in every coordinate the middle one of the values that came."""

from collections.abc import Sequence

import numpy as np
import torch

from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.rules.rows import columns, of_finite


@part(weighs=False)
@of_finite
def coordinate_median(contributions: Sequence[Contribution], state: RuleState) -> Combined:
    """In every coordinate the median, `d_j = med{u_1j, ..., u_nj}` (Yin et al., 2018): fewer than half may be hostile.

    Definition 1 of "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018. Of an even
    number it is the mean of the middle two. An update's share is that of the coordinates in which it is the middle one.
    Weights are not read: the paper has every member count once.
    """
    count, length = len(contributions), contributions[0].update.numel()
    middle = [(count - 1) // 2, count // 2]
    direction, chosen = torch.empty(length, dtype=torch.float64), np.zeros(count)
    for part_of, values in columns(contributions):
        ordered, index = values.sort(dim=1, stable=True)
        direction[part_of] = ordered[:, middle].to(torch.float64).mean(dim=1).cpu()
        chosen += torch.bincount(index[:, middle].flatten(), minlength=count).cpu().numpy()
    return Combined(direction.to(contributions[0].update.device), chosen / (2 * length), state)
