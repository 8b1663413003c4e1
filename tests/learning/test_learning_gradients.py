"""Personalised gradients against finite differences and against matrices a reader can check by eye."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, Example, images, plain_gradient, plain_hessian, updates
from torch import Tensor

from hpfl.learning import LocalTraining
from hpfl.learning.chain.convolution import Convolution, Geometry, Recent
from hpfl.learning.chain.delta import Term

ALPHA, BETA = 0.3, 0.1


def training(**options: Any) -> LocalTraining:
    return LocalTraining(**{"inner_lr": ALPHA, "outer_lr": BETA, **options})


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("inner_steps", [1, 2, 3])
@pytest.mark.parametrize("name", EXAMPLES)
def test_exact_gradient_matches_finite_differences_of_the_meta_loss(
    name: str, inner_steps: int, layerwise: bool
) -> None:
    example = EXAMPLES[name]()
    cohort = example.cohort(training(inner_steps=inner_steps), layerwise=layerwise)
    start, step = example.start, 1e-5
    exact = updates(cohort, start).update
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        way = torch.randn(len(start), generator=generator, dtype=torch.float64)
        way /= way.norm()
        ahead, behind = (updates(cohort, start + sign * step * way).meta_loss for sign in (1, -1))
        slope = (ahead - behind) / (2 * step)
        scale = exact.norm(dim=1).numpy() / np.sqrt(len(start))
        assert np.all(np.abs(slope - (exact @ way).numpy()) < 1e-6 * np.maximum(scale, np.abs(slope)))


def exact_by_matrices(example: Example, ue: int, start: Tensor, steps: int) -> Tensor:
    shard, point, factors = example.shard(ue), start, []
    for _ in range(steps):
        factors.append(torch.eye(len(start)) - ALPHA * plain_hessian(example.task, point, *shard))
        point = point - ALPHA * plain_gradient(example.task, point, *shard)[1]
    result = plain_gradient(example.task, point, *shard)[1]
    for factor in reversed(factors):
        result = factor @ result
    return result


def first_order_by_hand(example: Example, ue: int, start: Tensor, steps: int) -> Tensor:
    shard, point = example.shard(ue), start
    for _ in range(steps):
        point = point - ALPHA * plain_gradient(example.task, point, *shard)[1]
    return plain_gradient(example.task, point, *shard)[1]


def hessian_free_by_hand(example: Example, ue: int, start: Tensor, steps: int) -> Tensor:
    shard, points, delta = example.shard(ue), [start], 1e-3
    for _ in range(steps):
        points.append(points[-1] - ALPHA * plain_gradient(example.task, points[-1], *shard)[1])
    result = plain_gradient(example.task, points.pop(), *shard)[1]
    for point in reversed(points):
        ahead = plain_gradient(example.task, point + delta * result, *shard)[1]
        behind = plain_gradient(example.task, point - delta * result, *shard)[1]
        result = result - ALPHA * (ahead - behind) / (2 * delta)
    return result


BY_HAND = {"exact": exact_by_matrices, "first-order": first_order_by_hand, "hessian-free": hessian_free_by_hand}


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("inner_steps", [1, 2])
@pytest.mark.parametrize("objective", BY_HAND)
def test_an_objective_equals_the_loop_one_would_write(objective: str, inner_steps: int, layerwise: bool) -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training(objective=objective, inner_steps=inner_steps), layerwise=layerwise)
    result = updates(cohort, example.start, keep_per_ue=True)
    for ue in range(cohort.num_ues):
        expected = BY_HAND[objective](example, ue, example.start, inner_steps)
        torch.testing.assert_close(result.per_ue[ue], expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("layerwise", [True, False])
def test_no_inner_step_is_plain_federated_averaging(layerwise: bool) -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training(inner_lr=0.0, local_steps=3), layerwise=layerwise)
    point = example.start
    for _ in range(3):
        point = point - BETA * plain_gradient(example.task, point, *example.shard(4))[1]
    result = updates(cohort, example.start, ues=np.array([4]), groups=np.array([0]), num_groups=1)
    torch.testing.assert_close(result.update[0], (example.start - point) / BETA, rtol=1e-9, atol=1e-12)
    assert result.loss == pytest.approx(result.meta_loss)


@pytest.mark.parametrize("batches", ["shared", "independent"])
@pytest.mark.parametrize("objective", BY_HAND)
@pytest.mark.parametrize("name", ["mlp", "wide mlp", "lenet5", "smooth chain", "regression"])
def test_layerwise_and_general_engines_agree(name: str, objective: str, batches: Any) -> None:
    example = EXAMPLES[name]()
    for options in ({}, {"batch_size": 3, "batches": batches, "local_steps": 2, "inner_steps": 2}):
        pair = [
            updates(example.cohort(training(objective=objective, **options), layerwise=layerwise), example.start)
            for layerwise in (True, False)
        ]
        tolerance = 1e-12 if objective != "hessian-free" else 1e-10  # differences over a small step lose digits
        assert (pair[0].update - pair[1].update).norm() < tolerance * pair[1].update.norm()
        np.testing.assert_allclose(pair[0].loss, pair[1].loss, rtol=1e-12)
        np.testing.assert_allclose(pair[0].meta_loss, pair[1].meta_loss, rtol=1e-12)


@pytest.mark.parametrize("name", ["mlp", "wide mlp", "lenet5"])
def test_single_precision_stays_within_rounding(name: str) -> None:
    example = EXAMPLES[name]()
    exact = updates(example.cohort(training()), example.start).update
    for layerwise in (True, False):
        cohort = example.cohort(training(), layerwise=layerwise, dtype=torch.float32)
        single = updates(cohort, example.start).update.double()
        assert (single - exact).norm() < 1e-5 * exact.norm()


def test_the_layers_decide_for_themselves_which_engine_serves() -> None:
    def layerwise(name: str) -> bool:
        return type(EXAMPLES[name]().cohort(training()).engine).__name__ == "ChainEngine"

    assert [name for name in EXAMPLES if layerwise(name)] == ["mlp", "wide mlp", "lenet5", "smooth chain", "regression"]


def test_functional_activations_are_read_as_layers() -> None:
    class Functional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(8, 5), torch.nn.Linear(5, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            rows = torch.nn.functional.max_pool2d(torch.relu(self.a(inputs)), 2)
            return self.c(self.b(torch.flatten(rows, 1)).tanh())

    example = images((1, 6, 6), Functional)
    cohort = example.cohort(training())
    assert type(cohort.engine).__name__ == "ChainEngine"
    general = updates(example.cohort(training(), layerwise=False), example.start).update
    torch.testing.assert_close(updates(cohort, example.start).update, general, rtol=1e-10, atol=1e-13)


def test_a_layer_used_twice_is_left_to_the_general_engine() -> None:
    shared = torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(torch.nn.Flatten(), shared, torch.nn.Tanh(), shared)
    cohort = images((1, 2, 2), lambda: model).cohort(training())
    assert type(cohort.engine).__name__ == "GeneralEngine"


@pytest.mark.parametrize(("window", "padding", "stride"), [(5, 0, 1), (3, 1, 2), (2, 0, 2)])
def test_patches_convolve_as_convolutions_do(window: int, padding: int, stride: int) -> None:
    geometry = Geometry((stride, stride), (padding, padding), (1, 1), 1)
    plain = Convolution("layer", (4, 3, window, window), True, geometry)
    patched = replace(plain, always_patches=True, recent=Recent())
    generator = torch.Generator().manual_seed(1)
    rows, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 3, 3, 9, 9), (2, 4, 3, window, window), (2, 4))
    )
    outputs = plain._each(rows, weight, bias)
    errors = torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(patched._each(rows, weight, bias), outputs)
    torch.testing.assert_close(patched._each_back(errors, weight, rows), plain._each_back(errors, weight, rows))
    torch.testing.assert_close(patched.outer(Term(rows, errors)), plain.outer(Term(rows, errors)))
