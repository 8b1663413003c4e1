"""Chains of layers: they equal double backward whatever stands before the first dense layer, or are not taken."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import images, updates
from double_backward import check_against_double_backward
from drawn_chains import chains, drawn_example, trainings
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hpfl.learning import LocalTraining
from hpfl.learning.batches import Batch
from hpfl.learning.chain.chain_calculus import Chain
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.chain.free import AvgPool, Tanh
from hpfl.learning.chain.output import CrossEntropy
from hpfl.learning.chain.reading import chain_of
from hpfl.learning.memory import peak_bytes

SHAPE = (2, 5, 4)
PLAIN = LocalTraining(inner_lr=0.3, outer_lr=0.1)


WEIGHTED = nn.CrossEntropyLoss(weight=torch.tensor([0.3, 4.0, 1.0])).double()


@given(chains(SHAPE), trainings(), st.booleans(), st.booleans(), st.integers(0, 2**31))
@settings(deadline=None, max_examples=25, derandomize=True, phases=[Phase.generate])  # shrinking takes minutes
def test_a_drawn_chain_equals_double_backward(
    module: Any, training: LocalTraining, kept: bool, weighted: bool, seed: int
) -> None:
    example = drawn_example(module, SHAPE, seed, WEIGHTED if weighted else "cross-entropy")
    loss = WEIGHTED if weighted else F.cross_entropy
    cohort = check_against_double_backward(example, training, loss, products_kept=kept)
    assert isinstance(cohort.engine, ChainEngine)


def before_the_first_weights(layer: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(layer, nn.Flatten(), nn.Linear(16, 20), nn.Tanh(), nn.Linear(20, 4))


@pytest.mark.parametrize("layer", [nn.AvgPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d((1, 4))], ids=str)
def test_kept_inner_products_are_of_what_the_first_dense_layer_sees(layer: nn.Module) -> None:
    example = images((1, 8, 8), before_the_first_weights(layer))
    cohort = example.cohort(PLAIN)
    expected = updates(example.cohort(PLAIN, layerwise=False), example.start).update
    assert isinstance(cohort.engine, ChainEngine)
    assert cohort.data.gram is not None
    torch.testing.assert_close(updates(cohort, example.start).update, expected, rtol=1e-10, atol=1e-13)


def test_inner_products_of_pooled_inputs_take_the_memory_of_one_ue_beside_their_own() -> None:
    model = before_the_first_weights(nn.MaxPool2d(3, stride=1, padding=1))
    example = images((1, 4, 4), model)
    task = example.task.to(torch.device("cpu"), torch.float64)
    chain = chain_of(task)
    assert chain is not None
    inputs = torch.rand(30, 6, 1, 4, 4, dtype=torch.float64)
    batch = Batch(inputs, torch.zeros(30, 6), torch.ones(30, 6))
    peak = peak_bytes(lambda: ChainEngine(task, PLAIN, chain).gram(batch))
    assert peak <= 30 * 6 * 6 * 8 + 4 * inputs[0].nbytes


def raw_products(engine: ChainEngine, batch: Batch) -> Tensor:
    rows = batch.inputs.flatten(2)
    return (rows @ rows.mT).add_(1)


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (ChainEngine, "gram", raw_products),
        (AvgPool, "forward", lambda self, rows: (AvgPool.push(self, rows, rows).roll(1, 1), rows)),
        (Tanh, "bend", lambda self, errors, tangents, kept: None),
        (Tanh, "pull", lambda self, errors, kept: errors),
        (CrossEntropy, "tangents", lambda self, tangents, batch, kept: tangents * 0),
        (Chain, "entering", lambda self, inputs: [].index(1)),
    ],
)
def test_a_chain_that_disagrees_with_the_general_engine_is_not_taken(
    owner: type, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = images((1, 8, 8), before_the_first_weights(nn.AvgPool2d(2)))
    assert isinstance(example.cohort(PLAIN).engine, ChainEngine)
    monkeypatch.setattr(owner, name, wrong)
    assert not isinstance(example.cohort(PLAIN).engine, ChainEngine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_the_scale_of_weights_and_steps_does_not_keep_a_chain_from_being_taken(
    scale: float, dtype: torch.dtype
) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 4))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(scale)
    training = LocalTraining(inner_lr=10.0 * scale, outer_lr=0.1, inner_steps=7)
    assert isinstance(images((1, 4, 4), lambda: module).cohort(training, dtype=dtype).engine, ChainEngine)
