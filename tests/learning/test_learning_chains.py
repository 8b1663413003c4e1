"""Random chains against double backward: updates and evaluations, whatever stands before the first dense layer."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import Example, Segments, updates
from drawn_chains import DoubleBackward, batches_of, chains, drawn_example, trainings
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.learning import Cohort, LocalTraining, TestData
from hpfl.learning.chain.engine import ChainEngine
from hpfl.rng import Streams

SHAPE = (2, 5, 4)
SHARES = np.array([0.3, 2.0, 1.0, 0.7])


def start_of(example: Example) -> dict[str, torch.Tensor]:
    parts = example.task.spec.unflatten(example.start)
    return {name: part.detach().clone().requires_grad_() for name, part in parts.items()}


def check_updates(example: Example, cohort: Cohort, plain: DoubleBackward) -> None:
    """Each UE's update and losses, and their weighted mean over groups."""
    groups = np.array([0, 0, 1, 1])
    result = updates(cohort, example.start, groups=groups, num_groups=2, keep_per_ue=True, weights=SHARES)
    summed = updates(cohort, example.start, groups=groups, num_groups=2, weights=SHARES)
    expected = [
        plain.update(start_of(example), batches_of(example, ue, plain.training, Streams(5), 2)) for ue in range(4)
    ]
    shares = SHARES / np.bincount(groups, SHARES)[groups]
    for ue in range(4):
        torch.testing.assert_close(result.per_ue[ue], expected[ue][0], rtol=1e-8, atol=1e-10)
    for group in (0, 1):
        mean = sum(shares[ue] * expected[ue][0] for ue in np.flatnonzero(groups == group))
        torch.testing.assert_close(result.update[group], mean, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(summed.update[group], mean, rtol=1e-8, atol=1e-10)
    losses = np.array([e[1:] for e in expected]) * shares[:, None]
    np.testing.assert_allclose(result.loss, np.bincount(groups, losses[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(result.meta_loss, np.bincount(groups, losses[:, 1]), rtol=1e-9)


def check_evaluation(example: Example, cohort: Cohort, plain: DoubleBackward, test: TestData) -> None:
    """Losses and accuracies of every UE before and after two inner steps."""
    figures = cohort.evaluate(example.start, test, inner_lr=0.3, inner_steps=2)
    for ue in range(4):
        points = plain.adapted(start_of(example), example.shard(ue), 0.3, 2)
        first, last = (float(plain.loss_at(point, example.shard(ue)).detach()) for point in (points[0], points[-1]))
        np.testing.assert_allclose([figures.loss[ue], figures.meta_loss[ue]], [first, last], rtol=1e-9)
        rows = slice(ue, ue + int(test.shards.length[ue]))
        for point, found in ((points[-1], figures.personalised_accuracy), (points[0], figures.global_accuracy)):
            outputs = torch.func.functional_call(plain.module, point, (example.inputs[rows],))
            assert found[ue] == pytest.approx(float((outputs.argmax(1) == example.targets[rows]).double().mean()))


def cohort_of(example: Example, training: LocalTraining, **options: Any) -> tuple[Cohort, TestData]:
    test = TestData(example.inputs, example.targets, Segments(np.arange(5), np.arange(4), np.array([4, 8, 2, 5])))
    return example.cohort(training, test=test, **options), test


@given(chains(SHAPE), trainings(), st.booleans(), st.integers(0, 2**31))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_a_drawn_chain_equals_double_backward(module: Any, training: LocalTraining, kept: bool, seed: int) -> None:
    example = drawn_example(module, SHAPE, seed)
    cohort, test = cohort_of(example, training)
    assert isinstance(cohort._engine, ChainEngine)
    if not kept:
        cohort._gram = None  # as where the memory does not hold inner products
    plain = DoubleBackward(cohort.task.module, F.cross_entropy, training)
    check_updates(example, cohort, plain)
    check_evaluation(example, cohort, plain, test)
