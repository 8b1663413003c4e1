"""Laws of every registered method, whoever wrote it."""

import numpy as np
import pytest
import torch
from test_objective_contract import SIZES, Segments, task_and_data

from hpfl.learning import METHODS, Cohort, CohortUpdates, Kept, LocalTraining, Task, TestData
from hpfl.learning.method import shared_beside
from hpfl.rng import Streams


def task_for(name: str, task: Task) -> Task:
    return task.with_beside(shared_beside(METHODS.get(name)(), task.spec))


def cohort_of(name: str, chunk: int | None = None) -> Cohort:
    task, inputs, targets = task_and_data()
    return Cohort(
        task_for(name, task),
        LocalTraining(inner_lr=0.3, outer_lr=0.1, local_steps=2, batch_size=3, batches="independent"),
        inputs=inputs,
        targets=targets,
        shards=Segments(np.arange(5), np.cumsum(SIZES) - SIZES, SIZES),
        method=METHODS.get(name)(),
        dtype=torch.float64,
        chunk=chunk,
    )


def update(cohort: Cohort, kept: Kept | None = None) -> CohortUpdates:
    start = cohort.task.initial_parameters(Streams(1).at("init"))
    asked = {"ues": np.arange(4), "groups": np.array([0, 1, 0, 1]), "num_groups": 2, "streams": Streams(2), "key": 0}
    return cohort.updates(start, kept=kept, keep_per_ue=True, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METHODS.names())
def test_what_is_kept_has_the_length_that_was_said(name: str) -> None:
    method, task = METHODS.get(name)(), task_for(name, task_and_data()[0])
    params = task.initial_parameters(Streams(1).at("init"))
    assert method.first_kept(params, task.spec).shape == (method.numbers_kept(task.spec),)
    travels = method.travels(task.spec)
    assert travels is None or (travels.shape == params.shape and travels.dtype == torch.bool)
    assert travels is None or bool(travels.any()) != METHODS.part(name).traits["silent"]


@pytest.mark.parametrize("name", METHODS.names())
def test_chunks_change_neither_what_is_sent_nor_what_is_kept(name: str) -> None:
    whole, single = update(cohort_of(name)), update(cohort_of(name, chunk=1))
    torch.testing.assert_close(whole.per_ue, single.per_ue, rtol=1e-10, atol=1e-12)
    assert (whole.kept.method is None) == (single.kept.method is None)
    if whole.kept.method is not None:
        torch.testing.assert_close(whole.kept.method, single.kept.method, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", METHODS.names())
def test_only_what_travels_is_sent_and_ues_can_be_evaluated(name: str) -> None:
    cohort = cohort_of(name)
    found, travels = update(cohort), METHODS.get(name)().travels(cohort.task.spec)
    assert found.per_ue is not None
    assert travels is None or not found.per_ue[:, ~travels].any()
    _, inputs, targets = task_and_data()
    test = TestData(inputs, targets, Segments(np.arange(5), np.cumsum(SIZES) - SIZES, SIZES))
    start = cohort.task.initial_parameters(Streams(1).at("init"))
    assert np.isfinite(cohort.evaluate(start, test, inner_lr=0.1, kept=found.kept).meta_loss).all()
