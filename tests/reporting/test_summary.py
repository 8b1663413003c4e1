import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting_runs import evaluated, history, record

from hpfl.learning import DEFAULT_METRICS, BoundMetric, columns_of
from hpfl.reporting.summary import diverged, environment, rows, summarise, time_to_target, ue_figures
from hpfl.reporting.targets import ACCURACY, LOSS, Target, best_held, hardest_common

ACCURACIES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_a_target_counts_from_the_first_of_three_successive_evaluations() -> None:
    assert time_to_target(history([0.9, 0.9, 0.1, 0.9, 0.95, 0.9, 0.2], every=5), 0.9) == (50.0, 20)


@pytest.mark.parametrize("accuracies", [[], [0.9], [0.9, 0.9], [0.9, 0.9, 0.1, 0.9, 0.9]])
def test_fewer_than_three_successive_evaluations_do_not_reach_a_target(accuracies: list[float]) -> None:
    assert time_to_target(history(accuracies), 0.9) is None


@given(ACCURACIES, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_target_is_never_reached_sooner(accuracies: list[float], one: float, other: float) -> None:
    records = history(accuracies, every=2)
    low, high = (time_to_target(records, target) for target in sorted((one, other)))
    assert high is None or (low is not None and low.round <= high.round)


@given(ACCURACIES)
def test_the_highest_target_is_reached_and_nothing_above_it_is(accuracies: list[float]) -> None:
    records = history(accuracies)
    highest = best_held(rows(records), ACCURACY)
    assert (highest is None) == (len(accuracies) < 3)
    if highest is not None:
        assert time_to_target(records, highest) is not None
        assert time_to_target(records, highest + 1e-9) is None


@given(ACCURACIES)
def test_records_and_their_json_give_the_same_summary(accuracies: list[float]) -> None:
    records = history(accuracies, every=3)
    lines = [json.loads(json.dumps(r.to_json())) for r in records]
    assert summarise(records, target=Target(0.5)) == summarise(lines, target=Target(0.5))


def test_final_is_the_last_evaluation_and_best_the_best() -> None:
    summary = summarise([*history([0.2, 0.8, 0.6], every=2), record(7)], target=None)
    assert summary["final_personalised_accuracy"] == 0.6
    assert summary["best_personalised_accuracy"] == 0.8
    assert summary["best_round"] == 4
    assert summary["best_meta_loss"] == pytest.approx(0.2)
    assert summary["final_meta_loss"] == pytest.approx(0.4)
    assert summary["rounds"] == 7
    assert summary["time_s"] == 17.5


@pytest.mark.parametrize(
    ("accuracies", "lost"),
    [
        ([], False),
        ([0.1, 0.8, 0.9], False),
        ([0.1, 0.9, 0.7, 0.7, 0.7], True),
        ([0.1, 0.9, 0.7, 0.85, 0.7], False),
        ([0.15, 0.1, 0.1, 0.1], True),  # less than ten points, but the loss is higher than at first
    ],
)
def test_a_run_has_diverged_if_what_it_had_learned_is_lost_in_the_last_three(accuracies, lost) -> None:
    assert diverged(history(accuracies, every=2)) is lost
    assert summarise(history(accuracies), target=None)["diverged"] is lost


def test_costs_to_the_target_are_those_of_the_rounds_up_to_it() -> None:
    summary = summarise(history([0.1, 0.9, 0.9, 0.9]), target=Target(0.9))
    assert (summary["rounds_to_target"], summary["time_to_target_s"]) == (2, 5.0)
    assert (summary["energy_to_target_j"], summary["uplink_bits_to_target"]) == (1.0, 2e6)
    assert (summary["energy_j"], summary["uplink_bits"]) == (2.0, 4e6)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    summary = summarise([record(1), record(2, energy_j=float("nan"))], target=None)
    assert summary["energy_j"] is None
    assert summary["uplink_bits"] == 2e6


def test_a_run_without_rounds_has_a_summary() -> None:
    summary = summarise([], target=Target(0.9))
    assert summary["rounds"] == 0
    assert summary["mean_latency_s"] is None


def test_a_task_without_accuracy_has_losses_only() -> None:
    nan = float("nan")
    metrics = {"personalised_accuracy": nan, "global_accuracy": nan, "personalised_accuracy_p10": nan}
    summary = summarise([evaluated(1, 0.5, **metrics)], target=Target(0.9))
    assert summary["final_personalised_accuracy"] is None
    assert summary["final_meta_loss"] == 0.5


def test_the_environment_names_no_host_and_no_folder() -> None:
    text = json.dumps(environment())
    assert {"hpfl", "python", "torch", "numpy", "platform", "device", "threads"} == set(environment())
    assert "/" not in text


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=12))
def test_the_hardest_loss_is_reached_and_nothing_below_it_is(losses: list[float]) -> None:
    table = [{"round": n, "time_s": 2.0 * n, LOSS: loss} for n, loss in enumerate(losses, start=1)]
    best = best_held(table, LOSS)
    assert Target(best, LOSS).reached(table) is not None
    assert Target(best * (1 - 1e-9), LOSS).reached(table) is None
    common = hardest_common([table, table], LOSS)
    assert best <= common.value <= 1.011 * best  # three digits, rounded to the easier side
    assert common.reached(table) is not None


def test_a_configured_loss_is_the_target_instead_of_the_accuracy() -> None:
    records = [record(number, personalised_test_loss=1.0 / number, test_loss=2.0) for number in range(1, 8)]
    summary = summarise(records, target=Target(0.25, LOSS))
    assert (summary["target_accuracy"], summary["target_loss"]) == (None, 0.25)
    assert (summary["rounds_to_target"], summary["time_to_target_s"]) == (4, 10.0)
    assert (summary["final_personalised_test_loss"], summary["best_personalised_test_loss"]) == (1 / 7, 1 / 7)


def test_columns_of_other_metrics_follow_the_usual_ones():
    metric = BoundMetric(lambda tests: tests.weights[:, 0], ("personalised_ece", "global_ece"), worst="high")
    unjudged = BoundMetric(metric.metric, ("mine", "ours"))
    columns = ("personalised_ece", "global_ece", "personalised_ece_p90", "mine", "ours")
    rounds = [dict(evaluated(number, 0.5).to_json()) for number in (1, 2, 3)]
    for row, value in zip(rounds, (0.3, 0.1, 0.2), strict=True):
        row.update(dict.fromkeys(columns, value))
    usual = summarise(rounds, target=None)
    summary = summarise(rounds, target=None, metrics=(*DEFAULT_METRICS, metric, unjudged))
    assert {name: summary[name] for name in usual} == usual
    assert [name for name in summary if name not in usual] == [
        *(f"final_{name}" for name in columns),
        *(f"best_{name}" for name in columns[:3]),
    ]
    assert (summary["final_personalised_ece"], summary["best_personalised_ece"]) == (0.2, 0.1)


def test_figures_of_ues_begin_with_the_usual_ones_in_their_order():
    figures = {name: np.zeros(2) for name in (*columns_of(DEFAULT_METRICS), "mine")}
    first = ["personalised_accuracy", "global_accuracy", "meta_loss", "loss", "personalised_test_loss", "test_loss"]
    assert list(ue_figures(figures)) == [*first, "mine"]
    assert list(ue_figures({"mine": np.zeros(2), "loss": np.zeros(2)})) == ["loss", "mine"]
