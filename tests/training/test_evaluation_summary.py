"""What records tell of evaluations: the usual columns as they always were, others beside them, and when one is due."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.learning import DEFAULT_METRICS, BoundMetric, Evaluation, LearningError, columns_of
from hpfl.training.evaluation_summary import evaluation_is_due, summary_columns, summary_of
from hpfl.training.record import RoundRecord, check_columns, evaluated_columns

BAD_HIGH = BoundMetric(lambda tests: tests.weights[:, 0], ("personalised_ece", "global_ece"), worst="high")
USUAL = (
    "meta_loss",
    "loss",
    "personalised_accuracy",
    "global_accuracy",
    "personalised_accuracy_p10",
    "personalised_test_loss",
    "test_loss",
)


def record(**evaluation: float | None) -> RoundRecord:
    numbers = dict.fromkeys(
        ("time_s", "latency_s", "mean_staleness", "importance", "bandwidth_used_hz", "uplink_bits", "energy_j"), 0.0
    )
    more = dict.fromkeys(("planning_s", "objective", "lower_bound", "relative_gap"), 0.0)
    counts = {"round": 1, "num_scheduled": 0, "scheduled": (), "num_aggregated": 0, "max_staleness": 0}
    own = {"evaluation": evaluation} if evaluation else {}
    return RoundRecord(**numbers, **more, **counts, **own)  # type: ignore[arg-type]


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 200), st.integers(1, 60))
def test_an_evaluation_is_due_every_so_many_rounds_and_after_the_last(rounds: int, every: int) -> None:
    due = [number for number in range(1, rounds + 1) if evaluation_is_due(number, every=every, rounds=rounds)]
    assert due == sorted({*range(every, rounds + 1, every), rounds})


def test_the_usual_columns_have_their_names_and_their_order() -> None:
    assert summary_columns() == USUAL
    assert tuple(record().to_json())[-len(USUAL) :] == USUAL
    assert tuple(record().to_json())[-len(USUAL) - 1] == "noise_scale"
    assert columns_of(DEFAULT_METRICS) == tuple(name for name in ("loss", "meta_loss", *USUAL[2:]) if "p10" not in name)


def test_a_summary_has_means_over_those_who_have_the_figure_and_the_worst_decile() -> None:
    metrics = (*DEFAULT_METRICS, BAD_HIGH)
    rng = np.random.default_rng(0)
    columns = {name: rng.random(41) for name in columns_of(metrics)}
    columns["personalised_ece"][:30] = np.nan
    columns["global_ece"][:] = np.nan
    found = summary_of(Evaluation(columns), metrics)
    assert tuple(found) == (*USUAL, "personalised_ece", "global_ece", "personalised_ece_p90")
    assert found["meta_loss"] == columns["meta_loss"].mean()
    assert found["personalised_accuracy_p10"] == np.quantile(columns["personalised_accuracy"], 0.1)
    assert found["personalised_ece"] == columns["personalised_ece"][30:].mean()
    assert found["personalised_ece_p90"] == np.quantile(columns["personalised_ece"][30:], 0.9)
    assert np.isnan(found["global_ece"])


def test_columns_of_a_record_are_attributes_and_end_its_line() -> None:
    made = record(meta_loss=0.5, mine=float("nan"))
    assert made.meta_loss == 0.5
    assert made.personalised_accuracy is None  # a usual one, which is not measured here
    assert evaluated_columns(made.to_json()) == ("meta_loss", "mine")
    assert made.to_json()["mine"] is None
    with pytest.raises(AttributeError, match="no 'yours'; of evaluations this one has meta_loss, mine"):
        _ = made.yours


@pytest.mark.parametrize("name", ["round", "energy_j", "phases", "evaluation", "samples"])
def test_a_metric_may_not_take_the_name_of_something_else(name: str) -> None:
    with pytest.raises(LearningError, match=f"column is called '{name}'"):
        check_columns(("meta_loss", name))


def test_a_metrics_worst_decile_may_not_be_anothers_column() -> None:
    other = BoundMetric(BAD_HIGH.metric, ("personalised_accuracy_p10", "mine"))
    with pytest.raises(LearningError, match="'personalised_accuracy_p10' is given by two"):
        summary_columns((*DEFAULT_METRICS, other))
