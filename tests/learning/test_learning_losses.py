"""Losses over a UE's batch: class weights as torch defines them, and what is no mean over samples."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import Example, images, one_segment_each, updates
from double_backward import check_against_double_backward
from drawn_chains import drawn_example
from torch import Tensor, nn

from hpfl.learning import LearningError, LocalTraining, make_task
from hpfl.learning.batches import Samples
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.curvature import Landscape

SHAPE = (1, 3, 3)
WEIGHT = torch.tensor([0.2, 5.0, 1.0])
LOSSES: dict[str, Callable[[], nn.Module]] = {
    "weighted": lambda: nn.CrossEntropyLoss(weight=WEIGHT),
    "a class that does not count": lambda: nn.CrossEntropyLoss(weight=WEIGHT * torch.tensor([1.0, 0.0, 1.0])),
    "weighted and smoothed": lambda: nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.2),
    "a class that is ignored": lambda: nn.CrossEntropyLoss(ignore_index=2),
    "weighted likelihood": lambda: nn.NLLLoss(weight=WEIGHT),
}


def layers(loss: str) -> nn.Module:
    last = [nn.LogSoftmax(-1)] if loss == "weighted likelihood" else []
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3), *last)


def weighted_example(name: str) -> Example:
    """Four UEs, every one of which has a sample that counts."""
    example = drawn_example(layers(name), SHAPE, 3, LOSSES[name]())
    example.targets[np.cumsum(example.sizes) - 1] = 0
    return example


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_a_weighted_mean_is_over_the_samples_of_a_ue_as_torch_defines_it(name: str, layerwise: bool) -> None:
    example, loss = weighted_example(name), LOSSES[name]().double()
    for options in ({"inner_steps": 2}, {"batch_size": 4, "local_steps": 2, "batches": "independent"}):
        training = LocalTraining(inner_lr=0.3, outer_lr=0.2, **options)
        if options.get("batch_size") and name in ("a class that does not count", "a class that is ignored"):
            continue  # a batch may hold nothing that counts, of which torch has no mean
        cohort = check_against_double_backward(example, training, loss, layerwise=layerwise)
        assert isinstance(cohort.engine, ChainEngine) == (layerwise and name != "weighted likelihood")


def test_shares_of_classes_count_one_each_whatever_their_weights() -> None:
    example = drawn_example(layers(""), SHAPE, 3)
    shares = torch.rand(len(example.targets), 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = nn.CrossEntropyLoss(weight=WEIGHT)
    example = Example(make_task(layers(""), loss), example.inputs, shares / shares.sum(1, keepdim=True), example.sizes)
    check_against_double_backward(example, LocalTraining(inner_lr=0.3, outer_lr=0.2), loss.double())


def test_class_weights_change_what_a_ue_learns() -> None:
    training = LocalTraining(inner_lr=0.3, outer_lr=0.2)
    pair = [
        updates(drawn_example(module, SHAPE, 3, loss).cohort(training), start).update
        for module, loss in ((layers(""), nn.CrossEntropyLoss(weight=WEIGHT)), (layers(""), nn.CrossEntropyLoss()))
        for start in (drawn_example(layers(""), SHAPE, 3).start,)
    ]
    assert (pair[0] - pair[1]).norm() > 0.1 * pair[1].norm()


@pytest.mark.parametrize("layerwise", [True, False])
def test_a_ue_of_whose_samples_none_counts_stays_where_it_is(layerwise: bool) -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 1.0]))
    example = drawn_example(layers(""), SHAPE, 3, loss)
    example.targets[: example.sizes[0]] = 0
    result = updates(
        example.cohort(LocalTraining(inner_lr=0.3, outer_lr=0.2), layerwise=layerwise), example.start, keep_per_ue=True
    )
    assert torch.equal(result.per_ue[0], torch.zeros_like(result.per_ue[0]))
    assert result.per_ue[1:].abs().sum(1).min() > 0


def test_the_landscape_of_a_ue_is_that_of_its_weighted_loss() -> None:
    example, loss = weighted_example("weighted"), LOSSES["weighted"]().double()
    samples = Samples.on(
        torch.device("cpu"),
        torch.float64,
        inputs=example.inputs,
        targets=example.targets,
        shards=one_segment_each(example.sizes),
    )
    ues = np.array([2, 0])
    found = Landscape.of(example.task, samples, ues=ues, shares=np.ones(2)).gradients(example.start)
    task = example.task.to(torch.device("cpu"), torch.float64)
    for row, ue in enumerate(ues):
        inputs, targets = example.shard(ue)
        expected = torch.func.grad(lambda p, x=inputs, t=targets: loss(task.outputs(p, x), t))(example.start)
        torch.testing.assert_close(found[row], expected)


@pytest.mark.parametrize("layerwise", [True, False])
def test_a_sample_that_is_marked_as_ignored_adds_nothing(layerwise: bool) -> None:
    example = drawn_example(layers(""), SHAPE, 3)
    training = LocalTraining(inner_lr=0.0, outer_lr=0.2)
    expected = updates(example.cohort(training), example.start, keep_per_ue=True).per_ue
    example.targets[0] = -100
    found = updates(example.cohort(training, layerwise=layerwise), example.start, keep_per_ue=True).per_ue
    assert not torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1:], expected[1:])


def test_a_class_beyond_the_outputs_is_refused_before_torch_meets_it() -> None:
    example = drawn_example(layers(""), SHAPE, 3, nn.CrossEntropyLoss(weight=WEIGHT))
    example.targets[7] = 3
    with pytest.raises(LearningError, match="the model gives 3 outputs; classes go up to 3"):
        example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1))


def weighted_by_hand(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, weight=torch.tensor([1.0, 1.0, 1.0, 3.0]).to(outputs))


def centred(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = F.cross_entropy(outputs, targets, reduction="none")
    return losses - losses.mean() / 2


def noisy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs + 1e-9 * torch.randn_like(outputs), targets)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (weighted_by_hand, "the loss weighted_by_hand gives .* for 4 samples whose own losses have the mean"),
        (centred, "the loss centred of a sample depends on the other samples of its batch"),
        (noisy, "the loss noisy draws random numbers outside the keyed streams"),
        (nn.CrossEntropyLoss(reduction="sum"), "the loss CrossEntropyLoss gives .*, the sum of their losses"),
        (lambda o, t: F.cross_entropy(o, t).unsqueeze(0), "gives shape (1,) for 4 samples; wanted one number for each"),
    ],
)
def test_a_loss_that_is_no_mean_over_samples_is_refused_by_name(loss: Any, said: str) -> None:
    def flat_start() -> nn.Module:
        module = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
        nn.init.zeros_(module[1].weight)  # all outputs are alike at first
        nn.init.zeros_(module[1].bias)
        return module

    reference = images((1, 2, 2), flat_start)
    example = Example(make_task(flat_start, loss), reference.inputs, reference.targets, reference.sizes)
    with pytest.raises(LearningError, match=said.replace("(1,)", re.escape("(1,)"))):
        example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1))


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_that_sets_every_sample_against_every_target_is_refused() -> None:
    inputs = torch.rand(8, 3)
    task = make_task(lambda: nn.Linear(3, 1), nn.MSELoss())
    example = Example(task, inputs, inputs.sum(1), np.array([5, 3]))
    with pytest.raises(LearningError, match=r"the loss MSELoss gives .* it is no mean over samples"):
        example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1))


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.L1Loss(), nn.HuberLoss()], ids=str)
def test_plain_means_of_torch_are_welcome(loss: nn.Module) -> None:
    inputs = torch.rand(8, 3)
    example = Example(make_task(lambda: nn.Linear(3, 2), loss), inputs, inputs[:, :2].softmax(1), np.array([5, 3]))
    result = updates(
        example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1)), example.start, groups=np.zeros(2, dtype=np.int64)
    )
    assert np.isfinite(result.importance).all()
