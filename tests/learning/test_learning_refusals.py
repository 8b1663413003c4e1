"""What a model may not do: each refusal says what it was, and names the layer where there is one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import SIZES, Example, images, updates
from torch import Tensor, nn

from hpfl.learning import LearningError, LocalTraining, make_task

PLAIN = LocalTraining(inner_lr=0.1, outer_lr=0.1)
OWN_TORCH, OWN_NUMPY = torch.Generator().manual_seed(0), np.random.default_rng(0)


class Through(nn.Module):
    """A dense layer over what a function or layer makes of flat inputs."""

    def __init__(self, first: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = first, nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.first(inputs.flatten(1)))


class Sequence(nn.Module):
    """A layer over sequences of two, then a dense one."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(2, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.squeeze(1)
        attends = isinstance(self.layer, nn.MultiheadAttention)
        return self.last((self.layer(rows, rows, rows) if attends else self.layer(rows))[0][:, -1])


def refusal(model: Callable[[], nn.Module]) -> str:
    with pytest.raises(LearningError) as caught:
        images((1, 2, 2), model).cohort(PLAIN)
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "where"),
    [
        (lambda: Through(lambda rows: F.dropout(rows, 0.5)), "the model (Through)"),
        (lambda: Through(lambda rows: F.dropout(rows, 0.001)), "the model (Through)"),
        (lambda: Through(lambda rows: rows + 1e-30 * torch.randn_like(rows)), "the model (Through)"),
        (lambda: Through(lambda rows: rows * float(np.random.uniform(1, 1))), "the model (Through)"),  # noqa: NPY002
        (lambda: Through(nn.RReLU()), "layer 'first' (RReLU)"),
        (lambda: Sequence(nn.LSTM(2, 2, 2, dropout=0.001, batch_first=True)), "layer 'layer' (LSTM)"),
        (lambda: Sequence(nn.MultiheadAttention(2, 1, dropout=0.1, batch_first=True)), "layer 'layer' (Multihead"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(4, 4)), "layer '1' (Dropout)"),
    ],
)
def test_random_numbers_outside_the_keyed_streams_are_refused_as_such(model: Any, where: str) -> None:
    said = refusal(model)
    assert said.startswith(f"{where}")
    assert "draws random numbers outside the keyed streams, so that a run would not repeat" in said
    assert "decay" not in said


@pytest.mark.parametrize(
    "noise",
    [
        lambda rows: rows + 1e-4 * torch.randn(rows.shape, generator=OWN_TORCH, dtype=rows.dtype),
        lambda rows: rows * float(OWN_NUMPY.uniform(0.999, 1)),
    ],
)
def test_a_model_that_answers_otherwise_when_asked_again_is_refused_as_such(noise: Any) -> None:
    assert "other outputs when it is asked again" in refusal(lambda: Through(noise))


@pytest.mark.parametrize("head", [1.0, 0.0])
@pytest.mark.parametrize(
    "mixing", [lambda rows: rows - 0.1 * rows.mean(0), lambda rows: rows.cumsum(0), lambda rows: rows.roll(1, 0)]
)
def test_samples_that_see_each_other_are_refused_wherever_they_stand(mixing: Any, head: float) -> None:
    def model() -> nn.Module:
        module = Through(mixing)
        with torch.no_grad():
            module.last.weight.mul_(head)  # a head of zeros hides what is before it
        return module

    assert refusal(model) == "a sample's outputs depend on the other samples of its batch; wanted a model without that"


def test_dropout_that_drops_nothing_is_welcome() -> None:
    example = images((1, 2, 2), lambda: Through(lambda rows: F.dropout(rows, 0.0)))
    assert updates(example.cohort(PLAIN), example.start).importance.min() > 0


class Clamped(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        self.weight.data.clamp_(-0.01, 0.01)
        return super().forward(inputs.flatten(1))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: Through(nn.ELU(inplace=True)), "the model writes over its inputs"),
        (
            lambda: nn.Sequential(nn.SiLU(inplace=True), nn.Flatten(), nn.Linear(4, 4)),
            "the model writes over its inputs",
        ),
        (lambda: Clamped(4, 4), "the model writes over its parameters"),
        (lambda: nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (-1, 2)), nn.Linear(2, 4)), "a row for each sample"),
    ],
)
def test_a_model_that_writes_where_it_should_read_is_refused(model: Any, said: str) -> None:
    assert said in refusal(model)


class Words(nn.Module):
    """The mean of embedded words, then a dense layer."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 3, **options), nn.Linear(3, 4)

    def forward(self, words: Tensor) -> Tensor:
        return self.last(self.embedding(words).mean(1))


def bag(**options: Any) -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(9, 3, **options), nn.Linear(3, 4))


def words(model: Callable[[], nn.Module]) -> Example:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randint(0, 9, (int(SIZES.sum()), 5), generator=generator)
    return Example(make_task(model), inputs, torch.randint(0, 4, (len(inputs),), generator=generator), SIZES)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: Words(sparse=True), "layer 'embedding' (Embedding) has sparse gradients"),
        (lambda: Words(max_norm=1.0), "layer 'embedding' (Embedding) rescales its own weights"),
        (lambda: Words(scale_grad_by_freq=True), "layer 'embedding' (Embedding) divides its gradient"),
        (lambda: bag(sparse=True), "layer '0' (EmbeddingBag) has sparse gradients"),
        (lambda: bag(max_norm=1.0), "layer '0' (EmbeddingBag) rescales its own weights"),
        (bag, "layer '0' (EmbeddingBag) cannot be differentiated twice"),
    ],
)
def test_embeddings_without_a_second_derivative_are_refused_by_layer(model: Any, said: str) -> None:
    with pytest.raises(LearningError) as caught:
        words(model).cohort(PLAIN)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("objective", ["hessian-free", "first-order"])
def test_a_bag_of_embeddings_learns_where_one_derivative_suffices(objective: str) -> None:
    together, apart = words(lambda: bag(mode="mean")), words(Words)
    training = LocalTraining(inner_lr=0.1, outer_lr=0.1, objective=objective)
    pair = [updates(example.cohort(training), apart.start).update for example in (together, apart)]
    torch.testing.assert_close(pair[0], pair[1], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_loss_without_a_second_derivative_is_refused_with_the_objectives_that_do_without() -> None:
    reference = images((1, 2, 2), lambda: Through(nn.Tanh()))
    task = make_task(lambda: Through(nn.Tanh()), nn.MultiMarginLoss())
    with pytest.raises(LearningError, match=r"cannot be differentiated twice .* 'hessian-free' or 'first-order'"):
        Example(task, reference.inputs, reference.targets, reference.sizes).cohort(PLAIN)
