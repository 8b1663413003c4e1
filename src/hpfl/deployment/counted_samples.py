"""How many of the samples that UEs declare count in a mean: no one's share is larger than a limit."""

import numpy as np

from hpfl.arrays import FloatArray, IntArray

_LEAST = 3
"""UEs from which on a share is limited: of two, one always has half or more."""


def counted(samples: IntArray, *, share: float, ratio: float) -> IntArray:
    """The samples [n] of UEs, cut to `ratio` times their lower median and, from three UEs on, to a largest `share`.

    Where nobody is above, they are as declared. A share that not all can keep to, `n * share < 1`, is an equal one.
    """
    if not len(samples):
        return samples
    most = float(ratio * np.sort(samples)[(len(samples) - 1) // 2])
    if len(samples) >= _LEAST:
        most = min(most, _most_within(samples.astype(np.float64), share))
    return samples if samples.max() <= most else np.minimum(samples, max(int(most + 1e-9), 1))


def _most_within(samples: FloatArray, share: float) -> float:
    """The largest count `c` for which no `min(n_i, c)` is more than `share` of the sum of all.

    With `k` UEs at the cut, `c = share * (k c + sum of the others)`, and the others are below it.
    """
    ordered = np.sort(samples)
    if ordered[-1] <= share * ordered.sum():
        return float("inf")
    for cut in range(1, len(ordered)):
        others = ordered[:-cut]
        if cut * share < 1.0 and others[-1] * (1.0 - cut * share) <= share * others.sum():
            return float(share * others.sum() / (1.0 - cut * share))
    return float(ordered[0])
