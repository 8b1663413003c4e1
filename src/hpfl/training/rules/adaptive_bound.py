"""Rule `adaptive-bound`: the mean of updates none of which is far longer than others usually are."""

from collections.abc import Sequence

import numpy as np

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.training.combine import Combined, Contribution, RuleState
from hpfl.training.norm_bound import NormBound, scale_of
from hpfl.training.rules.rows import distances, of_finite, shares_by_weight, summed


class AdaptiveBoundOptions(Options):
    """How long an update may be beside others."""

    ratio: float = option(4.0, "times the median norm of what comes, or of the last 256 that counted", gt=0)


@part(options=AdaptiveBoundOptions)
@of_finite
def adaptive_bound(
    contributions: Sequence[Contribution], state: RuleState, *, options: AdaptiveBoundOptions
) -> Combined:
    """The mean by weight, `sum_i a_i s_i u_i` with `s_i = min(1, M / |u_i|)`, and without those beyond 4 M.

    M is `ratio` times the larger of two medians of norms: of what came, and of what has counted before. Deployments
    hold updates to it anyway (`limits.norm_ratio`). Where no norm exceeds M, this is the mean to the last bit, and
    simulated edges compute twice for it.
    """
    norms, known = distances(contributions).tolist(), NormBound(options.ratio, state.get("norms", ()))
    bound = known.among(norms)
    scales = np.array([scale_of(norm, bound) for norm in norms])
    for norm, scale in zip(norms, scales.tolist(), strict=True):
        if scale:
            known.accepted(norm * scale)
    counted = [one for one, scale in zip(contributions, scales.tolist(), strict=True) if scale]
    shares = np.zeros(len(contributions))
    shares[scales > 0] = shares_by_weight(counted) * scales[scales > 0]
    is_mean = bool((scales == 1.0).all())
    return Combined(summed(contributions, shares), shares, {"norms": known.remembered}, is_mean)
