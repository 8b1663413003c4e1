"""What a round's record tells of an evaluation, by name, and the one rule that says when an evaluation is due."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.learning import DEFAULT_METRICS, BoundMetric, Evaluation, LearningError, columns_of

HELD_OUT = "held_out_"
"""How columns of newcomers begin."""
EvaluationSummary = Mapping[str, float]
"""Means of one evaluation over the UEs that have the figure, and worst deciles, by name; NaN where nobody has it."""


def evaluation_is_due(round_number: int, *, every: int, rounds: int) -> bool:
    """Whether the model is evaluated after a round (counted from 1): every so many, and after the last."""
    return round_number % every == 0 or round_number == rounds


def summary_columns(metrics: Sequence[BoundMetric] = DEFAULT_METRICS) -> tuple[str, ...]:
    """The names of all that a summary tells, in their order: losses, then means and worst decile of each metric."""
    names = ["meta_loss", "loss"]
    for metric in metrics:
        names += [*metric.columns, *(() if metric.tail is None else metric.tail[:1])]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise LearningError(f"the column {twice[0]!r} is given by two metrics; wanted a name of its own for each")
    return tuple(names)


def summary_of(evaluation: Evaluation, metrics: Sequence[BoundMetric] = DEFAULT_METRICS) -> EvaluationSummary:
    """Means over the UEs that were evaluated, and what nine of ten UEs reach, in the order of `summary_columns`."""
    means = {name: _known(evaluation[name], np.mean) for name in columns_of(metrics)}
    tails = {metric.tail[0]: _tail(evaluation, metric) for metric in metrics if metric.tail is not None}
    return {name: (means | tails)[name] for name in summary_columns(metrics)}


def held_out_columns(metrics: Sequence[BoundMetric] = DEFAULT_METRICS) -> tuple[str, ...]:
    """The names of what is told of newcomers, which never trained, in their order."""
    return tuple(f"{HELD_OUT}{name}" for name in ("meta_loss", *(metric.columns[0] for metric in metrics)))


def held_out_summary(evaluation: Evaluation, metrics: Sequence[BoundMetric] = DEFAULT_METRICS) -> EvaluationSummary:
    """Means of newcomers' personal models, in the order of `held_out_columns`."""
    return {name: _known(evaluation[name.removeprefix(HELD_OUT)], np.mean) for name in held_out_columns(metrics)}


def summary_apart(
    evaluation: Evaluation, newcomers: BoolArray | None, metrics: Sequence[BoundMetric] = DEFAULT_METRICS
) -> EvaluationSummary:
    """Means over the UEs that train, and apart from them those of `newcomers` [N] (None: everybody trains)."""
    if newcomers is None:
        return summary_of(evaluation, metrics)
    apart = [Evaluation({name: of[who] for name, of in evaluation.items()}) for who in (~newcomers, newcomers)]
    return {**summary_of(apart[0], metrics), **held_out_summary(apart[1], metrics)}


def _tail(evaluation: Evaluation, metric: BoundMetric) -> float:
    assert metric.tail is not None
    quantile = metric.tail[1]
    return _known(evaluation[metric.columns[0]], lambda values: np.quantile(values, quantile))


def _known(values: FloatArray, figure: Callable[[FloatArray], Any]) -> float:
    """A figure of the values that are there; NaN of none."""
    known = values[~np.isnan(values)]
    return float(figure(known)) if known.size else math.nan
