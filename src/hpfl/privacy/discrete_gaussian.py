"""Normal noise in whole numbers, for sums of whole numbers: the discrete Gaussian, drawn exactly.

`P(x) ~ exp(-x^2 / (2 sigma^2))` over all whole numbers x. Noise that is drawn from real numbers and rounded afterwards
would be another's distribution; this one has a proof (Canonne, Kamath, Steinke: *The discrete Gaussian for
differential privacy*, NeurIPS 2020), and sums of it too: those of n UEs with `sigma^2 / n` each are as good as one with
`sigma^2`, up to `10 sum_k exp(-2 pi^2 sigma^2 / n k / (k + 1))` (Kairouz, Liu, Steinke: *The distributed discrete
Gaussian mechanism*, ICML 2021, theorem 1), which is 0 in float64 from `sigma^2 / n` of 76 on.
"""

import math
from typing import Any, Protocol

import numpy as np

from hpfl.arrays import FloatArray, IntArray

LEAST_SIGMA = 9.0
"""Of each UE's share, in steps of the whole numbers: what sums lose against one draw is below 1e-300."""


class Drawing(Protocol):
    """Where draws come from: NumPy's generators, and a deployed node's secret ones."""

    def random(self, size: int) -> FloatArray:
        """Even numbers from 0 to below 1."""
        ...

    def integers(self, low: int, high: int, size: int) -> Any:
        """Even whole numbers from `low` to below `high`."""
        ...

    def geometric(self, p: float, size: int) -> Any:
        """Tries until one of chance `p` comes true."""
        ...


def discrete_gaussian(sigma: float, count: int, rng: Drawing) -> IntArray:
    """So many draws by rejection from a discrete Laplace (algorithm 3 of Canonne et al.)."""
    if not (math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"the standard deviation of noise is {sigma:g}; wanted a positive number")
    scale, drawn = math.floor(sigma) + 1, list[IntArray]()
    missing = count
    while missing > 0:
        some = _discrete_laplace(scale, 2 * missing + 16, rng)
        off = np.abs(some) - sigma**2 / scale
        some = some[rng.random(len(some)) < np.exp(-(off**2) / (2.0 * sigma**2))][:missing]
        drawn.append(some)
        missing -= len(some)
    return np.concatenate(drawn) if drawn else np.zeros(0, dtype=np.int64)


def _discrete_laplace(scale: int, tries: int, rng: Drawing) -> IntArray:
    """Some draws, fewer than the tries, of `P(x) ~ exp(-|x| / scale)` (algorithm 2 of Canonne et al.)."""
    low = rng.integers(0, scale, size=tries)
    low = low[rng.random(tries) < np.exp(-low / scale)]
    size = low + scale * (rng.geometric(1.0 - math.exp(-1.0), size=len(low)) - 1)
    negative = rng.random(len(size)) < 0.5
    kept = ~(negative & (size == 0))
    return np.asarray(np.where(negative, -size, size)[kept], dtype=np.int64)
