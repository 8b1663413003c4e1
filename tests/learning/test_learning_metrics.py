"""Metrics: one function and one line make a column, on every engine, in any chunk, recorded on a GPU or not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, Segments, tokens
from torch import Tensor

from hpfl.learning import (
    DEFAULT_METRICS,
    METRICS,
    BoundMetric,
    Evaluation,
    LearningError,
    LocalTraining,
    RecordedCohort,
    TestData,
)
from hpfl.learning import recorded as recorded_cohort
from hpfl.learning.metrics import TestOutputs, columns_of
from hpfl.registry import Registry, part

SIZES = np.array([3, 0, 8, 4, 6, 2, 5])  # test samples per UE


def training() -> LocalTraining:
    return LocalTraining(inner_lr=0.3, outer_lr=0.5)


@part(worst="high")
def confidence(tests: TestOutputs) -> Tensor:
    """Mean probability of the likeliest class."""
    return tests.mean(tests.outputs.softmax(-1).amax(-1))


def bound() -> BoundMetric:
    return BoundMetric.of(METRICS.part("test_learning_metrics:confidence"))


def made_up(name: str) -> tuple[object, TestData]:
    example = EXAMPLES[name]()
    return example, TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), SIZES))


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_a_metric_of_ones_own_is_what_one_would_compute_ue_by_ue(name: str, layerwise: bool) -> None:
    example, test = made_up(name)
    cohort = example.cohort(training(), layerwise=layerwise, metrics=(*DEFAULT_METRICS, bound()))
    found = cohort.evaluate(example.start, test, inner_lr=0.4)
    assert list(found) == [*columns_of(DEFAULT_METRICS), "personalised_confidence", "global_confidence"]
    for ue, size in enumerate(SIZES):
        outputs = example.task.outputs(example.start, example.inputs[ue : ue + size])
        expected = float(outputs.softmax(-1).amax(-1).mean()) if size else np.nan
        assert found["global_confidence"][ue] == pytest.approx(expected, nan_ok=True)
    measured = SIZES > 0
    assert (found["personalised_confidence"][measured] != found["global_confidence"][measured]).all()


def test_metrics_change_nothing_of_each_other_and_chunks_change_nothing_of_metrics() -> None:
    example, test = made_up("mlp")
    usual = example.cohort(training()).evaluate(example.start, test, inner_lr=0.4)
    more = (bound(), *DEFAULT_METRICS)
    together, apart = (
        example.cohort(training(), metrics=more, chunk=chunk).evaluate(example.start, test, inner_lr=0.4)
        for chunk in (None, 1)
    )
    for name, values in together.items():
        np.testing.assert_allclose(apart[name], values, rtol=1e-12)
        if name in usual:
            np.testing.assert_array_equal(usual[name], values)


@pytest.mark.parametrize("name", METRICS.names())
@pytest.mark.parametrize("example", ["mlp", "tied tokens", "regression"])
def test_every_metric_gives_a_ue_one_number_whatever_pads_it_and_whoever_is_beside_it(name: str, example: str) -> None:
    made = EXAMPLES[example]() if example != "tied tokens" else tokens()
    outputs = made.task.outputs(made.start, made.inputs[:12]).detach().unflatten(0, (3, 4))
    targets, weights = made.targets[:12].unflatten(0, (3, 4)), torch.full((3, 4), 0.25, dtype=torch.float64)
    metric, whole = METRICS.get(name), TestOutputs(outputs, targets, weights, made.task)
    found = metric(whole)
    assert found.shape == (3,)
    padded = replace(
        whole,
        outputs=torch.cat([outputs, outputs[:, :2]], 1),
        targets=torch.cat([targets, targets[:, :2]], 1),
        weights=torch.nn.functional.pad(weights, (0, 2)),
    )
    torch.testing.assert_close(metric(padded), found, equal_nan=True)
    alone = replace(whole, outputs=outputs[1:2], targets=targets[1:2], weights=weights[1:2])
    torch.testing.assert_close(metric(alone), found[1:2], equal_nan=True)


def test_without_an_engine_the_loss_is_the_tasks_own() -> None:
    example, test = made_up("mlp")
    found = example.cohort(training()).evaluate(example.start, test, inner_lr=0.4)
    outputs = example.task.outputs(example.start, example.inputs[2:10]).detach().unsqueeze(0)
    own = TestOutputs(outputs, example.targets[2:10].unsqueeze(0), torch.full((1, 8), 0.125), example.task)
    assert float(own.loss()) == pytest.approx(found.test_loss[2])


def test_a_metric_is_called_with_its_options() -> None:
    options = pytest.importorskip("hpfl.options", exc_type=ImportError)  # a machine that only learns has no pydantic

    class Power(options.Options):
        power: int = options.option(1, "power of the loss", ge=1)

    registry: Registry[object] = Registry("metric", traits=METRICS.traits)
    registry.register("mine", options=Power)(lambda tests, *, options: tests.loss() ** options.power)
    example, test = made_up("mlp")
    found = registry.part("mine")
    metrics = (*DEFAULT_METRICS, BoundMetric.of(found, found.read({"power": 2})))
    figures = example.cohort(training(), metrics=metrics).evaluate(example.start, test, inner_lr=0.4)
    np.testing.assert_allclose(figures.global_mine, figures.test_loss**2)


def test_a_metric_that_names_no_columns_is_called_by_its_name() -> None:
    assert bound().columns == ("personalised_confidence", "global_confidence")
    assert bound().tail == ("personalised_confidence_p90", 0.9)
    assert DEFAULT_METRICS[0].tail == ("personalised_accuracy_p10", 0.1)
    assert DEFAULT_METRICS[1].tail is None


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({"columns": ("one",)}, "wanted two names"),
        ({"columns": ("a b", "c")}, "wanted two names"),
        ({"worst": "left"}, "wanted 'low', 'high' or None"),
    ],
)
def test_traits_that_make_no_sense_are_refused(traits: dict[str, object], said: str) -> None:
    registry: Registry[object] = Registry("metric", traits=METRICS.traits)
    registry.register("mine", **traits)(lambda tests: tests.loss())
    with pytest.raises(LearningError, match=f"metric mine .*{said}"):
        BoundMetric.of(registry.part("mine"))


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(LearningError, match="'personalised_accuracy' is given by two metrics"):
        columns_of((*DEFAULT_METRICS, DEFAULT_METRICS[0]))


def test_a_metric_of_another_shape_is_told_so() -> None:
    example, test = made_up("mlp")
    wrong = BoundMetric(lambda tests: tests.weights, ("mine", "ours"))
    with pytest.raises(LearningError, match=r"'mine' gives shape .*wanted one number for each UE"):
        example.cohort(training(), metrics=(wrong,)).evaluate(example.start, test, inner_lr=0.4)


def test_an_evaluation_is_a_mapping_with_attributes() -> None:
    found = Evaluation({"loss": np.ones(2), "mine": np.zeros(2)})
    assert found.mine is found["mine"]
    assert dict(found).keys() == {"loss", "mine"}
    with pytest.raises(AttributeError, match="no 'yours'; it has loss, mine"):
        _ = found.yours


@pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")
def test_a_gpu_records_metrics_that_allow_it_and_computes_the_others() -> None:
    example = EXAMPLES["wide mlp"]()
    sizes = np.maximum(SIZES, 1)
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), sizes))

    def mean_output(tests: TestOutputs) -> Tensor:
        return tests.mean(tests.outputs.mean(-1))

    def looked_at(tests: TestOutputs) -> Tensor:
        assert float(tests.outputs.abs().sum()) >= 0  # a look at a value, which no recording allows
        return mean_output(tests)

    recorded, unrecorded = (
        BoundMetric(metric, ("mine", "ours"), recordable=recordable)
        for metric, recordable in ((mean_output, True), (looked_at, False))
    )
    expected = example.cohort(training(), metrics=(recorded,)).evaluate(example.start, test, inner_lr=0.4)
    for metric in (recorded, unrecorded):
        cohort = recorded_cohort(
            example.cohort(training(), metrics=(*DEFAULT_METRICS, metric), test=test, device="cuda")
        )
        for _ in range(3):
            found = cohort.evaluate(example.start, test, inner_lr=0.4)
        assert isinstance(cohort, RecordedCohort)
        assert bool(cohort.evaluations) is metric.recordable
        np.testing.assert_allclose(found.mine, expected.mine, rtol=1e-9)
