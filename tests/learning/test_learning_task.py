"""Tasks: names, flat vectors, and what is refused with a sentence."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import EXAMPLES, TiedTokens, images, updates
from double_backward import check_against_double_backward
from drawn_chains import drawn_example
from torch import Tensor, nn

from hpfl.learning import LOSSES, MODELS, LearningError, LocalTraining, make_task
from hpfl.learning.check import check_model
from hpfl.learning.losses import cross_entropy, per_sample
from hpfl.registry import UnknownNameError
from hpfl.rng import Streams


def test_the_mlp_of_the_paper_has_79510_parameters() -> None:
    assert make_task("mlp", input_shape=(1, 28, 28), num_outputs=10).spec.num_parameters == 784 * 100 + 100 + 1000 + 10


def test_lenet5_on_cifar_has_the_usual_62006_parameters() -> None:
    assert make_task("lenet5", input_shape=(3, 32, 32), num_outputs=10).spec.num_parameters == 62006


def test_flattening_and_unflattening_are_inverse() -> None:
    spec = make_task("mlp", input_shape=(4,), num_outputs=3, options={"hidden": (5, 2)}).spec
    flat = torch.arange(spec.num_parameters, dtype=torch.float64)
    assert torch.equal(spec.flatten(spec.unflatten(flat)), flat)
    for name, place in spec.places.items():
        assert torch.equal(spec.unflatten(flat)[name].reshape(-1), flat[place])


class Tempered(nn.Module):
    """Class scores over a temperature that is learnt, a parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.temperature = nn.Linear(4, 3), nn.Parameter(torch.tensor(1.5))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(inputs.flatten(1)) / self.temperature


def test_a_parameter_without_dimensions_is_one_number_of_the_vector() -> None:
    spec = make_task(Tempered).spec
    assert spec.num_parameters == 16
    for flat in (torch.arange(16.0), torch.arange(48.0).view(3, 16)):
        parts = spec.unflatten(flat)
        assert torch.equal(parts["temperature"], flat[..., spec.places["temperature"]].squeeze(-1))
    assert torch.equal(spec.flatten(spec.unflatten(torch.arange(16.0))), torch.arange(16.0))


def test_a_learnt_temperature_has_the_gradient_of_double_backward() -> None:
    example = drawn_example(Tempered(), (1, 2, 2), 5)
    check_against_double_backward(example, LocalTraining(inner_lr=0.3, outer_lr=0.2, inner_steps=2), F.cross_entropy)


def test_initial_parameters_depend_on_the_stream_alone() -> None:
    task = make_task("mlp", input_shape=(4,), num_outputs=3)
    before = torch.get_rng_state()
    one, two = (task.initial_parameters(Streams(3).at("init")) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, task.initial_parameters(Streams(4).at("init")))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_given_module_starts_from_its_own_values() -> None:
    module = nn.Linear(3, 2)
    start = make_task(module, "mse").initial_parameters(Streams(0).at("init"))
    assert torch.equal(start, torch.cat([module.weight.reshape(-1), module.bias]))


def test_tied_weights_are_counted_once() -> None:
    assert make_task(TiedTokens).spec.num_parameters == 9 * 5 + 5 * 5 + 5


def test_frozen_parameters_are_constants() -> None:
    def model() -> nn.Module:
        module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 4))
        module[1].requires_grad_(False)
        return module

    example = images((1, 2, 2), model)
    assert example.task.spec.names == ("3.weight", "3.bias")
    result = updates(example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1)), example.start)
    assert result.update.shape == (3, 16)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.BatchNorm2d(1), "GroupNorm"),
        (nn.InstanceNorm2d(1, track_running_stats=True), "GroupNorm"),
        (nn.Dropout(0.5), "p = 0"),
        (nn.LazyLinear(3), "no sizes"),
    ],
)
def test_layers_with_a_state_of_their_own_are_refused(layer: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_task(nn.Sequential(layer, nn.Flatten(), nn.Linear(4, 2)))


def test_a_buffer_that_changes_in_training_is_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, inputs: Tensor) -> Tensor:
            self.calls += 1
            return self.last(inputs.flatten(1))

    with pytest.raises(ValueError, match="buffer 'calls' changes"):
        images((1, 2, 2), Counting).cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1))


def test_samples_that_see_each_other_are_refused() -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.last(inputs.flatten(1) - 3 * inputs.flatten(1).mean(0))

    with pytest.raises(ValueError, match="depend on the other samples"):
        images((1, 2, 2), Mixing).cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1))


def test_a_constant_buffer_is_welcome() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 4)
            self.register_buffer("shift", torch.ones(4))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.last(inputs.flatten(1) + self.shift)

    example = images((1, 2, 2), Shifted)
    assert updates(example.cohort(LocalTraining(inner_lr=0.1, outer_lr=0.1)), example.start).importance.min() > 0


def test_names_of_modules_and_losses_may_be_paths() -> None:
    task = make_task("cohort_examples:TiedTokens", "hpfl.learning.losses:cross_entropy")
    assert task.spec.num_parameters == 75
    with pytest.raises(ValueError, match=r"learning\.model is 'nowhere:model'"):
        make_task("nowhere:model")
    with pytest.raises(UnknownNameError, match="there are"):
        make_task("resnet")
    assert {"mlp", "lenet5"} <= set(MODELS)
    assert {"cross-entropy", "mse"} <= set(LOSSES)


def test_a_loss_that_averages_over_the_batch_is_taken_apart() -> None:
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    torch.testing.assert_close(per_sample(nn.CrossEntropyLoss())(outputs, targets), cross_entropy(outputs, targets))


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="none"), "cross-entropy"])
def test_losses_of_either_kind_give_the_same_update(loss: Any) -> None:
    reference = EXAMPLES["mlp"]()
    task = make_task("mlp", loss, input_shape=(1, 4, 4), num_outputs=4, options={"hidden": (6, 5)})
    example = type(reference)(task, reference.inputs, reference.targets, reference.sizes)
    training = LocalTraining(inner_lr=0.3, outer_lr=0.1)
    expected = updates(reference.cohort(training), reference.start).update
    for layerwise in (True, False):
        result = updates(example.cohort(training, layerwise=layerwise), reference.start).update
        torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-13)


def test_a_token_that_is_marked_as_ignored_does_not_count() -> None:
    outputs = torch.randn(1, 3, 4)
    targets = torch.tensor([[2, -100, 1]])
    kept = cross_entropy(outputs[:, [0, 2]], targets[:, [0, 2]])
    torch.testing.assert_close(cross_entropy(outputs, targets), kept)


def test_a_loss_with_parameters_is_refused() -> None:
    class Learned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

    with pytest.raises(ValueError, match="move them into the model"):
        make_task("mlp", Learned(), input_shape=(4,), num_outputs=2)


def test_a_class_of_losses_is_no_loss() -> None:
    with pytest.raises(
        LearningError, match=r"the loss MSELoss is a class; wanted an object of it, such as MSELoss\(\)"
    ):
        make_task("mlp", nn.MSELoss, input_shape=(4,), num_outputs=2)


@pytest.mark.parametrize(
    "wrong", [{"inner_lr": -1.0}, {"outer_lr": 0.0}, {"local_steps": 0}, {"batch_size": 0}, {"batches": "both"}]
)
def test_settings_outside_their_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"learning.{next(iter(wrong))} is"):
        LocalTraining(**{"inner_lr": 0.1, "outer_lr": 0.1, **wrong})


def flat(outputs: int, *, inputs: int = 12) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


class Pair(nn.Linear):
    def forward(self, inputs: Any) -> Any:
        return super().forward(inputs.flatten(1)), 1


@pytest.mark.parametrize(
    ("model", "loss", "said"),
    [
        (flat(3, inputs=7), "cross-entropy", r"the model fails on inputs of shape \(3, 4\): mat1 and mat2"),
        (flat(2), "cross-entropy", "the model gives 2 outputs; classes go up to 2"),
        (Pair(12, 3), "cross-entropy", "the model gives tuple; wanted one tensor"),
        (nn.Linear(4, 2), "mse", r"the loss fails on outputs of shape \(3, 2\) and targets of shape \(\)"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_with_the_shapes(model: nn.Module, loss: str, said: str) -> None:
    targets = torch.tensor([0, 1, 0, 2])
    with pytest.raises(LearningError, match=said):
        check_model(make_task(model, loss), torch.randn(2, 3, 4), targets)


def test_a_builder_that_asks_for_more_or_gives_no_module_is_refused() -> None:
    with pytest.raises(
        LearningError, match="missing a required argument: 'outputs'; it is given input_shape, num_outputs"
    ):
        make_task(flat)
    with pytest.raises(LearningError, match="gives int; wanted a"):
        make_task(lambda: 5)  # type: ignore[arg-type, return-value]


def test_the_squared_error_of_a_class_is_that_of_its_one_among_zeros() -> None:
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    expected = (outputs - nn.functional.one_hot(targets, 3)).square().mean(1)
    torch.testing.assert_close(LOSSES.get("mse")(outputs, targets), expected)
