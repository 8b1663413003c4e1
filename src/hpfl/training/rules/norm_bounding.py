"""Rule `norm-bounding`: the mean of updates none of which is longer than a bound."""

from collections.abc import Sequence

import numpy as np

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.rules.rows import distances, of_finite, shares_by_weight, summed


class NormBoundingOptions(Options):
    """How long an update may be."""

    bound: float = option(0.0, "M: the longest norm; 0: the median norm of what came, times the ratio", ge=0)
    ratio: float = option(1.0, "times the median norm, where no bound is given", gt=0)


@part(options=NormBoundingOptions)
@of_finite
def norm_bounding(contributions: Sequence[Contribution], state: RuleState, *, options: NormBoundingOptions) -> Combined:
    """The mean by weight of updates scaled down to a norm, `sum_i a_i u_i / max(1, |u_i| / M)` (Sun et al., 2019).

    Section 5 of "Can you really backdoor federated learning?", with M fixed, or the median norm of each round. One
    update moves the mean by its weight times M at most, in any direction: that is all it promises.
    """
    norms = distances(contributions)
    most = options.bound or options.ratio * float(np.median(norms))
    scales = np.where(norms > most, most / np.where(norms > most, norms, 1.0), 1.0)
    shares = shares_by_weight(contributions) * scales
    return Combined(summed(contributions, shares), shares, state)
