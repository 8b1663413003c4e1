"""What an attack with an aim of its own adds to evaluations: how often it succeeds."""

from dataclasses import replace

from hpfl.assembly import metrics_of
from hpfl.attacks.attack import ATTACKS
from hpfl.config import ConfigError, Experiment
from hpfl.learning import BoundMetric
from hpfl.learning.metrics import DEFAULT_METRICS, columns_of
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.record import check_columns

ACCURACY = DEFAULT_METRICS[0]
"""As it is measured by default."""


def measured_of(config: Experiment) -> tuple[BoundMetric, ...]:
    """What is recorded of evaluations: the metrics, and the success of an attack that has an aim of its own."""
    metrics, columns = metrics_of(config), ATTACKS.part(config.hostile.attack).traits["columns"]
    if not columns:
        return metrics
    if ACCURACY.columns[0] not in columns_of(metrics):
        raise ConfigError(
            f'hostile.attack is "{config.hostile.attack}"; its success needs "accuracy" in evaluation.metrics'
        )
    measured = (*metrics, replace(ACCURACY, columns=tuple(columns), worst=None))
    check_columns(summary_columns(measured))
    return measured
