"""The figures of one round, flat and named: one line of `rounds.jsonl`, from which every picture is drawn."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class EvaluationSummary:
    """Means over all UEs of one evaluation, and the worst decile; NaN where a task has no accuracy."""

    meta_loss: float
    loss: float
    personalised_accuracy: float
    global_accuracy: float
    personalised_accuracy_p10: float


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """Round `round` (counted from 1) and the system just after it. Evaluation fields are None between evaluations."""

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
    meta_loss: float | None = None
    loss: float | None = None
    personalised_accuracy: float | None = None
    global_accuracy: float | None = None
    personalised_accuracy_p10: float | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain object; numbers that JSON cannot hold become null."""
        return {key: _plain(value) for key, value in asdict(self).items()}


MEASURED_FIELDS = frozenset({"planning_s"})
"""Fields that are measured on the wall clock and so differ between identical runs."""


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value
