"""Distributions of per-member properties (CPU, power, distance, samples), each one inverse transform of a uniform."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hpfl.arrays import FloatArray, IntArray


class Distribution(Protocol):
    """Maps uniforms in [0, 1) to values; `lowest` and `highest` bound them."""

    @property
    def lowest(self) -> float:
        """No draw is below this."""
        ...

    @property
    def highest(self) -> float:
        """No draw is above this."""
        ...

    def quantile(self, uniform: FloatArray) -> FloatArray:
        """The value below which a share `uniform` of members lies."""
        ...


@dataclass(frozen=True)
class Constant:
    """Every member alike."""

    value: float

    @property
    def lowest(self) -> float:
        """The value."""
        return self.value

    @property
    def highest(self) -> float:
        """The value."""
        return self.value

    def quantile(self, uniform: FloatArray) -> FloatArray:
        """The value, whatever the draw."""
        return np.full(uniform.shape, self.value)


@dataclass(frozen=True)
class Uniform:
    """Uniform between two bounds."""

    low: float
    high: float

    @property
    def lowest(self) -> float:
        """Lower bound."""
        return self.low

    @property
    def highest(self) -> float:
        """Upper bound."""
        return self.high

    def quantile(self, uniform: FloatArray) -> FloatArray:
        """Linear between the bounds."""
        return self.low + (self.high - self.low) * uniform


@dataclass(frozen=True)
class Choice:
    """One of some classes of devices, with given shares."""

    values: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def lowest(self) -> float:
        """Least value."""
        return min(self.values)

    @property
    def highest(self) -> float:
        """Greatest value."""
        return max(self.values)

    def quantile(self, uniform: FloatArray) -> FloatArray:
        """The class whose share of [0, 1) the draw falls in."""
        shares = np.asarray(self.shares, dtype=np.float64)
        edges = np.cumsum(shares / shares.sum())[:-1]
        return np.asarray(self.values, dtype=np.float64)[np.searchsorted(edges, uniform, side="right")]


@dataclass(frozen=True)
class LogNormal:
    """Log-normal with median `median` and `sigma` nepers of spread, cut at four sigmas."""

    median: float
    sigma: float

    @property
    def lowest(self) -> float:
        """Four sigmas below the median."""
        return float(self.median * np.exp(-4.0 * self.sigma))

    @property
    def highest(self) -> float:
        """Four sigmas above the median."""
        return float(self.median * np.exp(4.0 * self.sigma))

    def quantile(self, uniform: FloatArray) -> FloatArray:
        """`median * exp(sigma * z)`, z standard normal within four sigmas."""
        from scipy.special import ndtri  # takes long to import, and few fleets are normal

        z = np.clip(ndtri(np.clip(uniform, 1e-12, 1 - 1e-12)), -4.0, 4.0)
        return np.asarray(self.median * np.exp(self.sigma * z), dtype=np.float64)


def whole_numbers(distribution: Distribution, uniform: FloatArray) -> IntArray:
    """Counts: a uniform distribution over the whole numbers low..high inclusive, others rounded to the nearest."""
    if isinstance(distribution, Uniform):
        low, high = int(np.ceil(distribution.low)), int(np.floor(distribution.high))
        return (low + np.floor(uniform * (high - low + 1))).astype(np.int64)
    return np.rint(distribution.quantile(uniform)).astype(np.int64)
