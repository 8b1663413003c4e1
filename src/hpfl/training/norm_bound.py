"""How large an update may be beside those of others: a multiple of a running median of norms, of one parent's children.

What is above the bound is scaled down to it, so that an honest outlier still counts, but no one turns a mean round.
What is far above it is left out: no honest update is there. In a deployment the bound is set on sketches, before
anything is sent, and each update is scaled as its sketch was: sketches are linear, so that what was announced can be
checked all the way up. In a simulation it is the combine rule `adaptive-bound`.
"""

import statistics
from collections import deque
from collections.abc import Collection, Iterable

import numpy as np

_REMEMBERED = 256
"""Norms of accepted updates that the running median is taken over."""
_LEAST = 3
"""Norms from which on a median tells who is the outlier: of two, nobody knows."""
FAR = 4.0
"""How many times the bound is far above it."""


class NormBound:
    """The bound of one parent: `ratio` times the median; 0: there is none."""

    def __init__(self, ratio: float, accepted: Iterable[float] = ()) -> None:
        self._ratio = ratio
        self._accepted = deque(accepted, maxlen=_REMEMBERED)

    @property
    def remembered(self) -> list[float]:
        """The norms that the running median is over, the oldest first."""
        return list(self._accepted)

    def accepted(self, norm: float) -> None:
        """One more update has counted."""
        self._accepted.append(norm)

    def among(self, norms: Collection[float]) -> float:
        """The bound where children announce such norms now; a round in which all have grown is no outlier."""
        medians = [statistics.median_high(some) for some in (self._accepted, norms) if len(some) >= _LEAST]
        return self._ratio * max(medians) if medians and self._ratio else np.inf


def scale_of(norm: float, bound: float) -> float:
    """What an update of a norm is multiplied by: 1 within the bound, 0 far above it."""
    if norm <= bound:
        return 1.0
    return bound / norm if norm <= FAR * bound else 0.0
