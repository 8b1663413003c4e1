"""Statistics of runs that differ in the seed alone: means and paired ratios with 95 % intervals, and who arrived.

Comparisons, studies and sweeps all take theirs from here, so that one table says what another says. A value is None
where a run never got there. A mean over some of the runs would flatter a group, so that there is none unless all did.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval, and how many values it is of; without ends where one value tells nothing."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def half(self) -> float | None:
        """Half the interval's width, as in `mean ± half`; None where there is none."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@dataclass(frozen=True)
class Arrivals:
    """How many of a group's runs got to a target."""

    arrived: int
    runs: int

    @property
    def all(self) -> bool:
        """Whether every run did, and there are some."""
        return 0 < self.runs == self.arrived

    def __str__(self) -> str:
        return f"{self.arrived} of {self.runs}"


def arrivals(values: Sequence[float | None]) -> Arrivals:
    """How many of these are known."""
    return Arrivals(sum(value is not None for value in values), len(values))


def mean_of_all(values: Sequence[float | None]) -> Interval | None:
    """The mean with Student's interval; None where some run never got there, or there are no runs."""
    known = [value for value in values if value is not None]
    return arithmetic(known) if len(known) == len(values) else None


def paired_ratio(one: Mapping[Hashable, float | None], other: Mapping[Hashable, float | None]) -> Interval | None:
    """How many times larger `other`'s values are than `one`'s, by seed: the geometric mean over the seeds both have.

    Never one seed against another: None where no seed is shared, where some run of either group never got there, and
    where a value is not positive.
    """
    values = [*one.values(), *other.values()]
    if any(value is None or value <= 0 for value in values):
        return None
    pairs = [(one[seed], other[seed]) for seed in one if seed in other]
    return geometric([theirs / ours for ours, theirs in pairs if ours and theirs])


def arithmetic(values: Sequence[float]) -> Interval | None:
    """The mean with Student's interval; None of none.

    Student's and not the bootstrap's: of five seeds the percentile bootstrap covers some 85%, not 95%.
    """
    if not values:
        return None
    centre = statistics.fmean(values)
    if len(values) < 2:
        return Interval(centre, None, None, len(values))
    half = _half(values)
    return Interval(centre, centre - half, centre + half, len(values))


def geometric(values: Sequence[float]) -> Interval | None:
    """The geometric mean of positive values, with Student's interval of their logarithms; None of none."""
    if not values:
        return None
    logs = [math.log(value) for value in values]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(centre), None, None, len(logs))
    half = _half(logs)
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half), len(logs))


def _half(values: Sequence[float]) -> float:
    from scipy.special import stdtrit  # Student's t; SciPy takes long to import

    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))
