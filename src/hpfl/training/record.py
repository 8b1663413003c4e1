"""The figures of one round, flat and named: one line of `rounds.jsonl`, from which every picture is drawn."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.learning import Evaluation
from hpfl.training.phases import Phases


@dataclass(frozen=True, kw_only=True)
class EvaluationSummary:
    """Means of one evaluation over the UEs that have the figure, and the worst decile; NaN where nobody has."""

    meta_loss: float
    loss: float
    personalised_accuracy: float
    global_accuracy: float
    personalised_accuracy_p10: float
    personalised_test_loss: float
    test_loss: float


def summary_of(evaluation: Evaluation) -> EvaluationSummary:
    """Means over the UEs that were evaluated, and the accuracy that nine of ten reach."""
    means = {entry.name: _known(getattr(evaluation, entry.name), np.mean) for entry in fields(evaluation)}
    worst = _known(evaluation.personalised_accuracy, lambda values: np.quantile(values, 0.1))
    return EvaluationSummary(**means, personalised_accuracy_p10=worst)


def _known(values: FloatArray, figure: Callable[[FloatArray], Any]) -> float:
    """A figure of the values that are there; NaN of none."""
    known = values[~np.isnan(values)]
    return float(figure(known)) if known.size else math.nan


EVALUATED = tuple(entry.name for entry in fields(EvaluationSummary))
"""Fields of a record that an evaluation fills."""


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """Round `round` (counted from 1) and the system just after it. Evaluation fields are None between evaluations.

    `scheduled` are the edges the plan gave bandwidth, `aggregated` those whose update arrived, `staleness` theirs and
    `shares` those they had in the step, which watchers are told and no file holds but the audit log;
    `superseded` updates in flight were replaced by a broadcast, `dropped` ones were lost with their edge; of the UEs
    `num_participants` took part in the round's links and `num_lost` were left out on the way.
    `objective`, `lower_bound` and `relative_gap` are those of P2, which planner `fastest` does not seek.
    `step_scale` multiplied the outer step; `noise_scale` is the planner's estimate of the noise between edges over the
    signal. `phases` goes to `timeline.jsonl`.
    """

    round: int
    time_s: float
    latency_s: float
    num_scheduled: int
    scheduled: tuple[int, ...]
    num_aggregated: int
    max_staleness: int
    mean_staleness: float
    importance: float
    bandwidth_used_hz: float
    uplink_bits: float
    energy_j: float
    planning_s: float
    objective: float
    lower_bound: float
    relative_gap: float
    aggregated: tuple[int, ...] = ()
    staleness: tuple[int, ...] = ()
    superseded: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    num_participants: int = 0
    num_lost: int = 0
    step_scale: float = 1.0
    noise_scale: float | None = None
    meta_loss: float | None = None
    loss: float | None = None
    personalised_accuracy: float | None = None
    global_accuracy: float | None = None
    personalised_accuracy_p10: float | None = None
    personalised_test_loss: float | None = None
    test_loss: float | None = None
    shares: tuple[float, ...] = ()
    phases: Phases | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A plain object; numbers that JSON cannot hold become null."""
        return {key: _plain(value) for key, value in vars(self).items() if key not in _UNWRITTEN}


_UNWRITTEN = frozenset({"shares", "phases"})

MEASURED_FIELDS = frozenset({"planning_s"})
"""Fields that are measured on the wall clock and so differ between identical runs."""


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
