"""Rule `geometric-median`: the point from which the distances to all updates add up to least (RFA)."""

from collections.abc import Sequence

import numpy as np
import torch

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.rules.rows import distances, of_finite, shares_by_weight, summed


class GeometricMedianOptions(Options):
    """How closely it is found."""

    iterations: int = option(3, "steps of the smoothed Weiszfeld algorithm", ge=1, le=10_000)
    eps: float = option(1e-6, "nu: distances below it count as so long, over the median norm of the updates", gt=0)


@part(options=GeometricMedianOptions)
@of_finite
def geometric_median(
    contributions: Sequence[Contribution], state: RuleState, *, options: GeometricMedianOptions
) -> Combined:
    """The point `argmin_v sum_i a_i |v - u_i|`, `a_i` the weights, by smoothed Weiszfeld steps (Pillutla et al., 2022).

    `b_i = a_i / max(nu, |v - u_i|)`, `v <- sum_i b_i u_i / sum_i b_i`: algorithm 2 of "Robust aggregation for federated
    learning", IEEE Trans. Signal Processing 70. It begins at 0, which is no step at all: from there an update of any
    size pulls no more than its weight, so that few steps are enough. Less than half of the weight may be hostile.
    """
    weights = shares_by_weight(contributions)
    least = options.eps * float(np.median(distances(contributions))) or options.eps
    centre = torch.zeros_like(contributions[0].update, dtype=torch.float64)
    shares = weights
    for _ in range(options.iterations):
        pulls = weights / np.maximum(distances(contributions, centre), least)
        shares = pulls / pulls.sum()
        centre = summed(contributions, shares)
    return Combined(centre, shares, state)
