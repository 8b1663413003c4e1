"""What a local step costs in gradients, and that it is what UEs are charged."""

import numpy as np
import pytest
import torch

import hpfl
from hpfl.assembly import sample_cost
from hpfl.config import load, resolve
from hpfl.data.sources import load_dataset
from hpfl.learning import BaseMethod, Local, LocalTraining, counted_passes, make_task
from hpfl.simulation.simulated_run import build_simulation


def passes(objective="exact", *, model="mlp", options=None, **training):
    task = make_task(model, input_shape=(1, 28, 28), num_outputs=10, options=options)
    inputs, targets = torch.rand(4, 1, 28, 28), torch.arange(4)
    made = LocalTraining(inner_lr=0.01, outer_lr=0.1, objective=objective, **training)
    return counted_passes(task, made, inputs, targets)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_objectives_without_second_derivatives_cost_as_many_gradients_as_they_take(steps):
    assert passes("first-order", inner_steps=steps) == steps + 1
    assert passes("hessian-free", inner_steps=steps) == 3 * steps + 1


def test_a_plain_gradient_is_one_pass():
    task = make_task("mlp", input_shape=(1, 28, 28), num_outputs=10)
    plain = LocalTraining(inner_lr=0.0, outer_lr=0.1)
    assert counted_passes(task, plain, torch.rand(4, 1, 28, 28), torch.arange(4)) == 1.0


def test_exact_passes_are_those_of_a_dense_network_counted_by_hand():
    wide, narrow, out = 784, 100, 10
    outer = wide * narrow * 2 + narrow * out * 3  # forward, weights' gradients; inputs' gradient of the last layer only
    product = wide * narrow * 2 + narrow * out * 6  # tangents forward, then weights' and inputs' parts of both rules
    assert passes("exact") == round((2 * outer + product) / outer, 2) == 3.02


def test_a_batch_of_its_own_for_the_hessian_costs_a_gradient_more():
    shared, own = (passes("exact", batch_size=4, batches=kind) for kind in ("shared", "independent"))
    assert own == pytest.approx(shared + 1, abs=0.011)


def compute_s(*overrides):
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "planning.planner=full"]
    config = hpfl.load("quickstart-paper", overrides=[*shape, *overrides])
    made = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=float)
    return made.parts.executor.observe(made.start).links.compute_s


def test_counted_passes_multiply_the_seconds_of_computing_and_the_papers_do_not():
    one = compute_s()
    np.testing.assert_allclose(compute_s("learning.charged_passes=counted"), 3.02 * one, rtol=1e-12)
    plain = compute_s("learning.charged_passes=counted", "learning.inner_lr=0")
    np.testing.assert_allclose(plain, one, rtol=1e-12)


class OneGradient(BaseMethod):
    """A method that takes one gradient of one batch, whatever the objective would take."""

    roles = ("support",)

    def local(self, steps, params, kept, training):
        found = steps[0].gradient(params)
        return Local(found.direction, kept, found.loss, found.loss)


@pytest.mark.parametrize(("charged", "passes"), [("paper", 1.0), ("counted", 1.0)])
def test_a_method_is_charged_what_it_takes(charged, passes):
    given = ["learning.method=test_learning_counting:OneGradient", f"learning.charged_passes={charged}"]
    config = resolve(load("quickstart-paper", overrides=[*given, "learning.batch_size=8"]))
    task = make_task("mlp", input_shape=(1, 28, 28), num_outputs=10)
    assert sample_cost(config, task, 1, (torch.rand(4, 1, 28, 28), torch.arange(4))).passes == passes
