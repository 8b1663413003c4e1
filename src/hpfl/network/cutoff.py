"""The deadline after which an edge goes on without its stragglers."""

import numpy as np

from hpfl.arrays import FloatArray

_TOGETHER = 1.0 + 1e-9  # UEs that a plan lets finish together differ by rounding; none of them is a straggler


def cut_s(deadline_s: float, first_s: FloatArray) -> FloatArray:
    """When each edge stops waiting: at the deadline, but not before the first of its UEs has delivered.

    `first_s` is when that is, 0 where one already has. A deadline of 0 is none.
    """
    if deadline_s <= 0:
        return np.full(first_s.shape, np.inf)
    return np.maximum(deadline_s, first_s * _TOGETHER)
