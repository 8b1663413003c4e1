"""The way of runs to a target: the one all are timed to, what it took each, and ratios over the same seeds."""

import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from hpfl.reporting.groups import Group
from hpfl.reporting.intervals import Interval, mean_of_all, paired_ratio
from hpfl.reporting.runs import RunView
from hpfl.reporting.summary import total
from hpfl.reporting.targets import ACCURACY, LOSS, Target, hardest_common

NOTICEABLE = 1.02
"""Ratios nearer to 1 than this are called equal."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The way of one run to the target: what it took, and what its rounds were like until then."""

    time_s: float
    rounds: int
    level: float
    edges_per_round: float
    staleness: float
    uplink_bits: float | None
    energy_j: float | None

    @property
    def seconds_per_round(self) -> float:
        """Seconds of a mean round on the way."""
        return self.time_s / self.rounds


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways of a group's runs, by seed; None for a run that never got there."""

    group: Group
    by_seed: dict[int | None, Way | None]

    @property
    def arrived(self) -> list[Way]:
        """The ways of those that got there."""
        return [way for way in self.by_seed.values() if way]

    @property
    def all_arrived(self) -> bool:
        """Whether every run got there; a mean over some of them would flatter the group."""
        return len(self.arrived) == len(self.by_seed)

    def values(self, figure: Callable[[Way], float]) -> dict[Hashable, float | None]:
        """A figure by seed; None for a run that never got there."""
        return {seed: None if way is None else figure(way) for seed, way in self.by_seed.items()}

    def over_seeds(self, figure: Callable[[Way], float]) -> Interval | None:
        """A figure's mean over the seeds with its 95 % interval; None unless all got there."""
        return mean_of_all(list(self.values(figure).values()))

    def mean(self, figure: Callable[[Way], float]) -> float:
        """A figure's mean over those that got there."""
        return statistics.fmean(figure(way) for way in self.arrived)

    @property
    def order(self) -> tuple[float, float]:
        """To sort by: first those of which all got there, by their mean time; last those of which none did."""
        missing = 1 - len(self.arrived) / len(self.by_seed)
        return (missing, self.mean(lambda way: way.time_s)) if self.arrived else (missing, math.inf)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times longer one group took than another, and that as a product: rounds times seconds per round.

    Geometric means, over the seeds both have, of seed by seed ratios.
    """

    time: Interval
    rounds: float

    @property
    def seconds_per_round(self) -> float:
        """How many times longer a mean round took."""
        return self.time.mean / self.rounds

    @property
    def open(self) -> bool:
        """Whether the seeds do not tell which of the two is faster."""
        low, high = self.time.low, self.time.high
        return low is not None and high is not None and low <= 1 <= high


def common_target(runs: Sequence[RunView]) -> tuple[Target | None, str]:
    """The configured target if it is one and all reach it; else the hardest that all reach, eased to a round figure."""
    wanted = {view.target for view in runs}
    for target in wanted if len(wanted) == 1 else ():
        if target is not None and all(target.reached(view.rows) for view in runs):
            return target, "as configured"
    metric = metric_of(runs)
    found = hardest_common([view.rows for view in runs], metric)
    if found is None:
        return None, f"some run has fewer than three evaluations of {'loss' if metric == LOSS else 'accuracy'}"
    return found, "lowest that all reach" if found.is_loss else "highest that all reach"


def metric_of(runs: Sequence[RunView]) -> str:
    """What runs are compared by: accuracy, unless none has one."""
    accurate = any(row.get(ACCURACY) is not None for view in runs for row in view.rows)
    lossy = any(row.get(LOSS) is not None for view in runs for row in view.rows)
    return LOSS if lossy and not accurate else ACCURACY


def way_to(view: RunView, target: Target) -> Way | None:
    """The way of `view` to a target; None if it never got there."""
    reached = target.reached(view.rows)
    if reached is None:
        return None
    rows = view.rows[: reached.round]
    return Way(
        time_s=reached.time_s,
        rounds=reached.round,
        level=rows[-1][target.metric],
        edges_per_round=float(np.mean(view.column("num_scheduled")[: reached.round])),
        staleness=float(np.mean(view.column("mean_staleness")[: reached.round])),
        uplink_bits=total(rows, "uplink_bits"),
        energy_j=total(rows, "energy_j"),
    )


def ways_to(group: Group, target: Target) -> Ways:
    """The ways of all runs of a group."""
    return Ways(group=group, by_seed={seed: way_to(view, target) for seed, view in group.by_seed.items()})


def ratio(one: Ways, other: Ways) -> Ratio | None:
    """How many times longer `other` took than `one`, by seed.

    None where some run did not arrive or took no time at all, and where they have no seed in common.
    """
    time = paired_ratio(one.values(lambda way: way.time_s), other.values(lambda way: way.time_s))
    rounds = paired_ratio(one.values(lambda way: way.rounds), other.values(lambda way: way.rounds))
    return None if time is None or rounds is None else Ratio(time=time, rounds=rounds.mean)


def share_a_seed(one: Group, other: Group) -> bool:
    """Whether there is anything to pair."""
    return not one.by_seed.keys().isdisjoint(other.by_seed)
