"""The GPU kernels of pooled convolutions against the layers they stand for; without a GPU, interpreted where asked."""

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, SIZES, Segments, images, updates
from torch import Tensor, nn

from hpfl.learning import LearningError, LocalTraining, RecordedCohort, TestData
from hpfl.learning.chain import pooled as pooled_module
from hpfl.learning.chain.convolution import Convolution, Geometry
from hpfl.learning.chain.delta import Delta
from hpfl.learning.chain.free import Flatten, MaxPool, Relu, Tanh
from hpfl.learning.chain.link import At, Link
from hpfl.learning.chain.pooled import Kernels, PooledLink, pooled
from hpfl.learning.chain.weighted import Weights, formed

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALVING = MaxPool(((2, 2), (2, 2), (0, 0), (1, 1), False))
BOUND = {torch.float64: 1e-13, torch.float32: 1e-6}

needs_kernels = pytest.mark.skipif(
    find_spec("triton") is None or not (torch.cuda.is_available() or INTERPRETED),
    reason="kernels want Triton and a GPU, or TRITON_INTERPRET=1 in the environment",
)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")


@pytest.fixture
def kernels_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled_module, "kernels_run_on", lambda example: True)


@pytest.fixture(autouse=INTERPRETED and DEVICE == "cpu")
def kernels_interpreted(kernels_everywhere: None) -> None:
    """The interpreter takes a CPU's tensors."""


def training(**options: Any) -> LocalTraining:
    return LocalTraining(**{"inner_lr": 0.3, "outer_lr": 0.1, **options})


def convolution(shape: tuple[int, int, int, int], padding: int = 0, stride: int = 1, groups: int = 1) -> Convolution:
    return Convolution("layer", shape, True, Geometry((stride,) * 2, (padding,) * 2, (1, 1), groups))


def every_pass(link: Link, rows: Tensor, weights: Weights, deltas: list[Delta]) -> list[Tensor]:
    """Outputs, gradients, errors and tangents of one link."""
    generator = torch.Generator().manual_seed(2)

    def random(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)

    results = []
    for at in (At(weights), At(weights, deltas[0])):
        outputs, passage = link.forward(rows, at)
        gradient = formed(link.layer, link.backward(random(outputs), passage))
        back = link.back(passage.errors, at, passage)
        first, _ = link.push(None, at, deltas[1], passage)
        tangents, pushed = link.push(random(rows), at, deltas[1], passage)
        errors, product = link.pull_tangents(random(outputs), passage, pushed)
        back_tangents = link.back_tangents(errors, at, deltas[1], passage)
        results += [outputs, *gradient, back, first, tangents, *formed(link.layer, product), back_tangents]
    return results


@needs_kernels
@pytest.mark.parametrize("per_ue", [False, True])
@pytest.mark.parametrize(
    ("shape", "size", "padding", "dtype"),
    [
        ((6, 3, 5, 4), (9, 12), 2, torch.float32),
        ((6, 3, 5, 4), (9, 12), 2, torch.float64),
        ((9, 2, 3, 3), (7, 9), 1, torch.float64),
        ((2, 1, 2, 2), (9, 6), 0, torch.float64),
    ],
)
def test_a_pooled_link_passes_as_its_layers_do(
    shape: tuple[int, int, int, int], size: tuple[int, int], padding: int, dtype: torch.dtype, per_ue: bool
) -> None:
    layer = convolution(shape, padding)
    generator = torch.Generator().manual_seed(1)

    def random(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64).to(DEVICE, dtype)

    rows, lead = random(2, 3, shape[1], *size), (2,) if per_ue else ()
    weights = Weights(random(*lead, *shape), random(*lead, shape[0]), per_ue)
    deltas = [Delta((), random(2, *shape), random(2, shape[0])) for _ in range(2)]
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        plain = every_pass(Link(layer, (Relu(), HALVING, Flatten())), rows, weights, deltas)
    kernels = every_pass(PooledLink(layer, (Flatten(),), Kernels(layer)), rows, weights, deltas)
    for one, two in zip(kernels, plain, strict=True):
        assert (one - two).norm() <= BOUND[dtype] * two.norm()


def uneven_net() -> nn.Module:
    """Odd sizes, padding, no bias, and ReLU after the pooling."""
    return nn.Sequential(
        nn.Conv2d(2, 3, 4, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 5, 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(20, 4),
    )


MODELS = {"lenet5": EXAMPLES["lenet5"], "uneven net": lambda: images((2, 12, 11), uneven_net)}


def pooled_links(cohort: Any) -> int:
    return sum(isinstance(link, PooledLink) for link in cohort.engine.chain.links)


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_kernels_give_the_gradients_of_the_general_engine(name: str) -> None:
    example = MODELS[name]()
    for options in ({}, {"inner_steps": 2, "local_steps": 2}, {"batch_size": 4, "batches": "independent"}):
        expected = updates(example.cohort(training(**options), layerwise=False), example.start).update
        for chunk in (1, 7, None):
            for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
                cohort = example.cohort(training(**options), device=DEVICE, dtype=dtype, chunk=chunk)
                assert pooled_links(cohort) == 2
                result = updates(cohort, example.start).update.double().cpu()
                assert (result - expected).norm() <= bound * expected.norm()


@needs_kernels
def test_kernels_evaluate_as_the_general_engine_does() -> None:
    example = MODELS["uneven net"]()
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), SIZES))
    figures = example.cohort(training(), device=DEVICE).evaluate(example.start, test, inner_lr=0.4, inner_steps=2)
    expected = example.cohort(training(), layerwise=False).evaluate(example.start, test, inner_lr=0.4, inner_steps=2)
    for one, two in zip(figures.values(), expected.values(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)


@needs_kernels
def test_groups_may_start_from_different_models_on_kernels() -> None:
    example = MODELS["uneven net"]()
    starts = torch.stack([example.start, example.start * 0.5, example.start * 1.5])
    expected = updates(example.cohort(training(), layerwise=False), starts).update
    result = updates(example.cohort(training(), device=DEVICE), starts).update.cpu()
    assert (result - expected).norm() <= 1e-12 * expected.norm()


@needs_kernels
def test_kernels_give_the_same_bits_again_whatever_the_chunk() -> None:
    example = MODELS["uneven net"]()
    cohorts = [example.cohort(training(), device=DEVICE, dtype=torch.float32, chunk=chunk) for chunk in (None, None, 1)]
    first, again, single = (updates(cohort, example.start, keep_per_ue=True).per_ue for cohort in cohorts)
    assert torch.equal(first, again)
    convolutions = slice(0, 96 + 60 + 5)  # dense layers take other products of the library for other chunks
    assert torch.equal(first[:, convolutions], single[:, convolutions]) or DEVICE == "cuda"


@needs_gpu
def test_recorded_rounds_and_evaluations_equal_those_computed_at_once() -> None:
    example = MODELS["uneven net"]()
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), SIZES))
    at_once = example.cohort(training(), device=DEVICE, test=test, chunk=100)
    cohort = RecordedCohort(example.cohort(training(), device=DEVICE, test=test))
    for number in range(4):
        start = example.start * (1 + number / 10)
        fresh = RecordedCohort(example.cohort(training(), device=DEVICE, test=test))
        result, expected_update = (updates(c, start).update for c in (cohort, at_once))
        torch.testing.assert_close(result, expected_update, rtol=1e-12, atol=1e-14)
        assert torch.equal(result, updates(fresh, start).update)  # so that a resumed run rounds as it would have
        figures, expected = (c.evaluate(start, test, inner_lr=0.4) for c in (cohort, at_once))
        for one, two in zip(figures.values(), expected.values(), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    assert cohort.replays
    assert cohort.evaluations
    assert not RecordedCohort.records(at_once)


@needs_gpu
def test_a_recorded_round_of_several_blocks_leaves_earlier_answers_alone() -> None:
    example = MODELS["uneven net"]()
    cohort = example.cohort(training(), device=DEVICE, block_ues=2)
    recorded, expected = RecordedCohort(cohort), updates(cohort, example.start).update
    first = updates(recorded, example.start).update
    updates(recorded, example.start * 2)
    torch.testing.assert_close(first, expected, rtol=1e-12, atol=1e-14)


@needs_gpu
@pytest.mark.parametrize("products", ["tf32", "bf16"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rounded_products_cost_a_few_digits(name: str, products: Any) -> None:
    example = EXAMPLES[name]()
    calm = training(inner_lr=0.03)
    expected = updates(example.cohort(calm), example.start).update
    for layerwise in (True, False):
        try:
            cohort = example.cohort(calm, device=DEVICE, dtype=torch.float32, products=products, layerwise=layerwise)
        except LearningError:  # a layer does not take bfloat16, as `test_learning_precision` checks
            assert products == "bf16"
            continue
        result = updates(cohort, example.start).update
        assert result.dtype == torch.float32
        assert (result.double().cpu() - expected).norm() < 0.1 * expected.norm()


@needs_kernels
def test_what_is_not_a_number_reaches_the_outputs() -> None:
    kernels = Kernels(convolution((2, 1, 3, 3)))
    rows = torch.randn(1, 1, 1, 8, 8, device=DEVICE)
    rows[0, 0, 0, 4, 4] = torch.nan
    outputs, _ = kernels.pool(rows, torch.randn(2, 1, 3, 3, device=DEVICE), None)
    assert outputs[0, 0, :, 1, 1].isnan().all()
    assert outputs[0, 0, :, 0, 0].isfinite().all()


@pytest.mark.parametrize(
    ("layer", "then"),
    [
        (convolution((6, 3, 5, 5)), (Tanh(), HALVING)),
        (convolution((6, 3, 5, 5)), (Relu(),)),
        (convolution((6, 3, 5, 5)), (Relu(), MaxPool(((3, 3), (2, 2), (0, 0), (1, 1), False)))),
        (convolution((6, 3, 5, 5), stride=2), (Relu(), HALVING)),
        (convolution((6, 3, 5, 5), padding=5), (Relu(), HALVING)),
        (convolution((6, 1, 5, 5), groups=3), (Relu(), HALVING)),
        (convolution((64, 3, 5, 5)), (Relu(), HALVING)),
        (convolution((6, 3, 9, 9)), (Relu(), HALVING)),
    ],
)
@pytest.mark.usefixtures("kernels_everywhere")
def test_other_links_stay_as_they_are(layer: Convolution, then: Any) -> None:
    link = Link(layer, then)
    assert pooled(link, torch.zeros(1)) is link


@pytest.mark.parametrize("then", [(Relu(), HALVING, Flatten()), (HALVING, Relu(), Flatten())])
@pytest.mark.usefixtures("kernels_everywhere")
def test_relu_and_pooling_join_the_convolution_in_either_order(then: Any) -> None:
    link = pooled(Link(convolution((6, 3, 5, 5)), then), torch.zeros(1))
    assert isinstance(link, PooledLink)
    assert link.then == (Flatten(),)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes a CPU's tensors")
def test_without_kernels_for_a_device_links_stay_as_they_are() -> None:
    link = Link(convolution((6, 3, 5, 5)), (Relu(), HALVING))
    assert pooled(link, torch.zeros(1)) is link
