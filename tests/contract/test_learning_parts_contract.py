"""The law of every data set, model, loss, method, metric and uplink step."""

import numpy as np
import pytest
import torch

from hpfl.data.dataset import DatasetError
from hpfl.data.sources import DATASETS, load_dataset
from hpfl.learning import LOSSES, MODELS, OBJECTIVES, LocalTraining, make_task
from hpfl.learning.method import METHODS
from hpfl.learning.metrics import METRICS
from hpfl.learning.uplink import UPLINKS
from hpfl.rng import Streams


@pytest.mark.parametrize("name", DATASETS.names())
def test_a_data_set_is_what_it_says_of_itself(name, tmp_path):
    spec = DATASETS.get(name)
    assert spec.name == name
    assert spec.num_outputs >= 1
    try:
        data = load_dataset(name, None if name == "mnist-mini" else tmp_path)
    except DatasetError:
        return  # its files are not here, and it said so
    assert (data.num_train, data.num_classes, data.input_shape) == (spec.num_train, spec.num_classes, spec.input_shape)
    assert len(data.test_targets) == spec.num_test
    assert set(np.unique(data.targets)) == set(range(spec.num_classes))


@pytest.mark.parametrize("name", MODELS.names())
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_a_model_answers_every_sample_by_itself_and_begins_the_same(name, shape):
    task = make_task(name, input_shape=shape, num_outputs=7)
    start = task.initial_parameters(Streams(1).at("model"))
    assert torch.equal(start, task.initial_parameters(Streams(1).at("model")))
    assert not torch.equal(start, task.initial_parameters(Streams(2).at("model")))
    inputs = torch.from_numpy(Streams(0).at("inputs").uniform(5 * int(np.prod(shape)))).float().view(5, *shape)
    outputs = task.outputs(start, inputs)
    assert outputs.shape == (5, 7)
    torch.testing.assert_close(outputs[2:3], task.outputs(start, inputs[2:3]))


@pytest.mark.parametrize("name", LOSSES.names())
def test_a_loss_is_one_number_per_sample_and_least_at_the_right_answer(name):
    loss, targets = LOSSES.get(name), torch.tensor([2, 0, 1])
    right = torch.nn.functional.one_hot(targets, 3).float()
    losses = loss(right, targets)
    assert losses.shape == (3,)
    assert (losses >= 0).all()
    for wrong in (right.roll(1, 1), right.roll(2, 1)):
        assert (loss(wrong, targets) > losses).all()
    order = torch.tensor([1, 2, 0])
    assert torch.equal(loss(right[order], targets[order]), losses[order])


@pytest.mark.parametrize("name", METHODS.names())
def test_a_method_that_is_an_objective_names_one_and_changes_nothing_else_twice(name):
    made, training = METHODS.get(name)(), LocalTraining(inner_lr=0.1, outer_lr=0.2, local_steps=3)
    if hasattr(made, "as_objective"):
        meant = made.as_objective(training)
        assert meant.objective in OBJECTIVES.names()
        assert (meant.outer_lr, meant.local_steps) == (0.2, 3)
        assert made.as_objective(meant) == meant


def test_no_two_metrics_fill_one_column():
    parts = [METRICS.part(name) for name in METRICS.names()]
    columns = [column for part in parts for column in part.traits.get("columns") or part.made.columns]
    assert len(columns) == len(set(columns)) == 2 * len(parts)


def test_uplink_steps_are_made_without_arguments():
    for name in UPLINKS.names():
        assert UPLINKS.get(name)().length(8) >= 0
