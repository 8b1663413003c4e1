"""What runs are timed to: a personalised accuracy or, where there is none, a personalised test loss."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpfl.config import EvaluationConfig
from hpfl.reporting import formats

Row = Mapping[str, Any]

ACCURACY, LOSS = "personalised_accuracy", "personalised_test_loss"
SUCCESSIVE = 3
"""Evaluations in a row that must meet a target before its first one counts."""


class Reached(NamedTuple):
    """When a target was reached: simulated seconds, and the round."""

    time_s: float
    round: int


@dataclass(frozen=True)
class Target:
    """A value of personalised accuracy to be reached from below, or of personalised test loss from above."""

    value: float
    metric: str = ACCURACY

    @property
    def is_loss(self) -> bool:
        """Whether less is better."""
        return self.metric == LOSS

    @property
    def short(self) -> str:
        """`93.0 %`, or `loss 0.12`."""
        return f"loss {formats.number(self.value)}" if self.is_loss else formats.share(self.value)

    @property
    def full(self) -> str:
        """`93.0 % personalised accuracy`, or `a personalised test loss of 0.12`."""
        if self.is_loss:
            return f"a personalised test loss of {formats.number(self.value)}"
        return f"{formats.share(self.value)} personalised accuracy"

    def met_by(self, value: float) -> bool:
        """Whether a figure is as good as the target."""
        return value <= self.value if self.is_loss else value >= self.value

    def reached(self, rows: Sequence[Row]) -> Reached | None:
        """The first of three successive evaluations that meet it; None if there are no such three."""
        measured = [row for row in rows if row.get(self.metric) is not None]
        met = [self.met_by(row[self.metric]) for row in measured]
        for index in range(len(met) - SUCCESSIVE + 1):
            if all(met[index : index + SUCCESSIVE]):
                return Reached(measured[index]["time_s"], measured[index]["round"])
        return None


def configured(evaluation: EvaluationConfig) -> Target:
    """The target of a configuration: a loss where one is given, else an accuracy."""
    if evaluation.target_loss > 0:
        return Target(evaluation.target_loss, LOSS)
    return Target(evaluation.target_accuracy)


def best_held(rows: Sequence[Row], metric: str) -> float | None:
    """The best value that three successive evaluations hold, that is the hardest target ever reached."""
    values = [row[metric] for row in rows if row.get(metric) is not None]
    windows = (values[index : index + SUCCESSIVE] for index in range(len(values) - SUCCESSIVE + 1))
    if metric == LOSS:
        return min((max(window) for window in windows), default=None)
    return max((min(window) for window in windows), default=None)


def hardest_common(runs: Sequence[Sequence[Row]], metric: str) -> Target | None:
    """The hardest target that all runs reach, eased to a round figure; None where some run never holds a value."""
    best = [best_held(rows, metric) for rows in runs]
    held = [value for value in best if value is not None]
    if not held or len(held) < len(best):
        return None
    if metric == LOSS:
        worst = max(held)
        step = 10.0 ** (math.floor(math.log10(worst)) - 2) if worst > 0 else 1.0
        return Target(math.ceil(worst / step) * step, LOSS)
    return Target(math.floor(min(held) * 1000) / 1000)
