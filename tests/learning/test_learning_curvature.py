"""Per-UE gradients, Hessian-vector products and spectral norms against dense matrices."""

from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, SIZES, Example, one_segment_each, plain_gradient, plain_hessian
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from hpfl.learning.batches import Samples
from hpfl.learning.curvature import Landscape, leading_eigenpairs, spectral_norms


def landscape(example: Example, ues: np.ndarray, shares: np.ndarray | None = None, **options: Any) -> Landscape:
    samples = Samples.on(
        torch.device("cpu"),
        torch.float64,
        inputs=example.inputs,
        targets=example.targets,
        shards=one_segment_each(example.sizes),
    )
    own = np.ones(len(ues)) if shares is None else shares
    return Landscape.of(example.task, samples, ues=ues, shares=own, **options)


def plain_product(example: Example, ue: int, point: Tensor, vector: Tensor) -> Tensor:
    task, (inputs, targets) = example.task.to(torch.device("cpu"), torch.float64), example.shard(ue)
    with sdpa_kernel(SDPBackend.MATH):
        return torch.autograd.functional.hvp(
            lambda p: task.loss(task.outputs(p, inputs), targets).mean(), point, vector
        )[1]


@pytest.mark.parametrize("kind", ["mlp", "layer norm", "regression", "attention", "recurrent", "lenet5"])
def test_gradients_and_products_are_those_of_a_plain_loop(kind: str) -> None:
    example, ues = EXAMPLES[kind](), np.array([4, 0, 5, 2])
    own, task = landscape(example, ues), example.task.to(torch.device("cpu"), torch.float64)
    points = example.start + 0.01 * torch.arange(4, dtype=torch.float64).unsqueeze(1)
    vectors = torch.randn(points.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    gradients, products = own.gradients(points), own.hessian_vectors(points, vectors)
    for row, ue in enumerate(ues.tolist()):
        torch.testing.assert_close(gradients[row], plain_gradient(task, points[row], *example.shard(ue))[1])
        torch.testing.assert_close(products[row], plain_product(example, ue, points[row], vectors[row]))


@pytest.mark.parametrize("kind", ["mlp", "lenet5"])
def test_the_mean_hessian_weighs_ues_as_the_mean_loss_does(kind: str) -> None:
    example, ues, shares = EXAMPLES[kind](), [1, 2, 6], [0.5, 0.3, 0.2]
    vectors = torch.randn(2, len(example.start), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = landscape(example, np.array(ues), np.array(shares)).mean_hessian_vectors(example.start, vectors)
    for row, vector in enumerate(vectors):
        parts = [s * plain_product(example, ue, example.start, vector) for ue, s in zip(ues, shares, strict=True)]
        torch.testing.assert_close(found[row], torch.stack(parts).sum(0))


def test_chunks_change_nothing_but_the_memory() -> None:
    example, ues = EXAMPLES["mlp"](), np.arange(len(SIZES))
    whole, pieces = landscape(example, ues), landscape(example, ues, memory_gb=1e-6)
    assert len(pieces.chunks) == len(ues) > len(whole.chunks)
    torch.testing.assert_close(pieces.gradients(example.start), whole.gradients(example.start))


def test_power_iteration_finds_the_largest_absolute_eigenvalue_of_every_ue() -> None:
    example, ues = EXAMPLES["mlp"](), np.arange(len(SIZES))
    own, point = landscape(example, ues), example.start
    task = example.task.to(torch.device("cpu"), torch.float64)
    hessians = torch.stack([plain_hessian(task, point, *example.shard(ue)) for ue in ues.tolist()])
    dense = torch.linalg.eigvalsh(hessians).abs().max(dim=1).values
    start = torch.randn(len(ues), len(point), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = spectral_norms(lambda v: own.hessian_vectors(point, v), start, most_steps=400, tolerance=1e-9)
    torch.testing.assert_close(found.values, dense, rtol=1e-5, atol=0)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 6))
def test_a_power_iteration_never_overstates_and_never_falls(seed: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(3, 6, 6, generator=generator, dtype=torch.float64)
    operators, start = root + root.mT, torch.randn(3, 6, generator=generator, dtype=torch.float64)

    def apply(v: Tensor) -> Tensor:
        return (operators @ v.unsqueeze(-1)).squeeze(-1)

    norms = torch.linalg.matrix_norm(operators, ord=2)
    few = spectral_norms(apply, start, most_steps=steps, tolerance=0.0)
    more = spectral_norms(apply, start, most_steps=steps + 1, tolerance=0.0)
    assert (few.values <= norms * (1 + 1e-12)).all()
    assert (more.values >= few.values).all()


def test_a_zero_operator_has_norm_zero_and_keeps_its_direction() -> None:
    start = torch.eye(2, 3)
    found = spectral_norms(torch.zeros_like, start, most_steps=3)
    assert found.values.tolist() == [0.0, 0.0]
    assert torch.equal(found.vectors, start)


def test_subspace_iteration_finds_the_leading_eigenpairs() -> None:
    generator = torch.Generator().manual_seed(2)
    basis = torch.linalg.qr(torch.randn(8, 8, generator=generator, dtype=torch.float64))[0]
    values = torch.tensor([-9.0, 7.0, 5.0, 0.5, -0.4, 0.3, 0.1, 0.0], dtype=torch.float64)
    matrix = basis @ torch.diag(values) @ basis.T
    start = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    found = leading_eigenpairs(lambda v: v @ matrix, start, steps=30)
    torch.testing.assert_close(found.values, torch.tensor([-9.0, 5.0, 7.0], dtype=torch.float64))
    assert found.tail == pytest.approx(5.0)
    top = basis[:, :3] @ torch.diag(values[:3]) @ basis[:, :3].T
    torch.testing.assert_close(found.apply(matrix), matrix @ top)


def test_all_eigenpairs_leave_no_tail() -> None:
    matrix = torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64))
    found = leading_eigenpairs(lambda v: v @ matrix, torch.eye(2, dtype=torch.float64), steps=1)
    assert found.tail == 0.0
    torch.testing.assert_close(found.apply(torch.eye(2, dtype=torch.float64)), matrix)


def test_diversity_is_the_root_mean_square_distance_from_the_weighted_mean() -> None:
    example, ues, shares = EXAMPLES["mlp"](), np.arange(len(SIZES)), np.arange(1.0, 8.0)
    own = landscape(example, ues, shares)
    rows = own.gradients(example.start)
    mean = sum(s * row for s, row in zip(shares / shares.sum(), rows, strict=True))
    squares = [s * float(((row - mean) ** 2).sum()) for s, row in zip(shares / shares.sum(), rows, strict=True)]
    assert own.diversity(rows) == pytest.approx(sum(squares) ** 0.5)
