"""The whole machine against plain PyTorch loops that share only the dealt data and the schedule."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from hpfl.config import load
from hpfl.data.sources import load_dataset
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 20]",
    "learning.dtype=float64",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=8",
]


def simulated(system, *overrides):
    config = load("quickstart-paper", system=system, overrides=[*SMALL, *overrides])
    dataset = load_dataset("mnist-mini")
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)
    records = []
    state = train(
        simulation.start,
        simulation.parts,
        simulation.settings,
        lambda _, record: records.append(record) or True,
    )
    return config, dataset, simulation, state, records


def ue_data(dataset, simulation):
    rows, offsets = simulation.dealt.shards.source_rows()
    for begin, end in itertools.pairwise(offsets):
        x = (torch.from_numpy(dataset.inputs[rows[begin:end]]).float() / 255).double().flatten(1)
        yield x, torch.from_numpy(dataset.targets[rows[begin:end]])


def plain_model(parameters, x):
    w1, b1, w2, b2 = parameters
    return torch.relu(x @ w1.T + b1) @ w2.T + b2


def split(flat):
    sizes = [784 * 100, 100, 100 * 10, 10]
    shapes = [(100, 784), (100,), (10, 100), (10,)]
    return [part.reshape(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


def fedavg_gradient(flat, x, y):
    parameters = [p.clone().requires_grad_() for p in split(flat)]
    loss = nn.functional.cross_entropy(plain_model(parameters, x), y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


def perfedavg_gradient(flat, x, y, alpha):
    """Differentiate `f(w - alpha grad f(w))` by autograd, Hessian and all."""
    parameters = [p.clone().requires_grad_() for p in split(flat)]
    inner = nn.functional.cross_entropy(plain_model(parameters, x), y)
    gradients = torch.autograd.grad(inner, parameters, create_graph=True)
    adapted = [p - alpha * g for p, g in zip(parameters, gradients, strict=True)]
    outer = nn.functional.cross_entropy(plain_model(adapted, x), y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(outer, parameters)])


def semi_asynchronous_loop(start, edges, gradient, schedules, beta, broadcast="scheduled"):
    """The paper's recurrence by hand: every edge holds the model it last received."""
    w, held = start, [start] * len(edges)
    for scheduled in schedules:
        updates = [torch.stack([gradient(held[k], x, y) for x, y in edges[k]]).mean(0) for k in scheduled]
        w = w - beta * torch.stack(updates).mean(0)
        for k in range(len(edges)) if broadcast == "all" else scheduled:
            held[k] = w
    return w


def by_edge(dataset, simulation):
    fleet = simulation.fleet
    data = list(ue_data(dataset, simulation))
    return [[data[i] for i in np.flatnonzero(fleet.edge_of_ue == k)] for k in range(fleet.num_edges)]


@pytest.mark.parametrize("planner", ["full", "random", "paper", "shpfl", "joint"])
def test_hpfl_equals_an_independent_semi_asynchronous_per_fedavg(planner):
    config, dataset, simulation, state, records = simulated("hpfl", f"planning.planner={planner}")
    expected = semi_asynchronous_loop(
        simulation.start.params,
        by_edge(dataset, simulation),
        lambda w, x, y: perfedavg_gradient(w, x, y, config.learning.inner_lr),
        [record.scheduled for record in records],
        config.learning.outer_lr,
    )
    assert torch.allclose(state.params, expected, rtol=0, atol=1e-12)


def test_hfl_equals_an_independent_semi_asynchronous_fedavg():
    config, dataset, simulation, state, records = simulated("hfl", "planning.planner=random")
    expected = semi_asynchronous_loop(
        simulation.start.params,
        by_edge(dataset, simulation),
        fedavg_gradient,
        [record.scheduled for record in records],
        config.learning.outer_lr,
    )
    assert torch.allclose(state.params, expected, rtol=0, atol=1e-12)


def test_broadcast_to_all_makes_every_update_fresh():
    config, dataset, simulation, state, records = simulated("hpfl", "planning.planner=random", "training.broadcast=all")
    expected = semi_asynchronous_loop(
        simulation.start.params,
        by_edge(dataset, simulation),
        lambda w, x, y: perfedavg_gradient(w, x, y, config.learning.inner_lr),
        [record.scheduled for record in records],
        config.learning.outer_lr,
        broadcast="all",
    )
    assert torch.allclose(state.params, expected, rtol=0, atol=1e-12)
    assert all(record.max_staleness == 0 for record in records)


@pytest.mark.parametrize("system", ["fl", "pfl"])
def test_two_tiers_equal_an_independent_two_tier_loop(system):
    config, dataset, simulation, state, _ = simulated(system)
    data = list(ue_data(dataset, simulation))
    w = simulation.start.params
    for _ in range(config.training.rounds):
        if system == "fl":
            gradients = [fedavg_gradient(w, x, y) for x, y in data]
        else:
            gradients = [perfedavg_gradient(w, x, y, config.learning.inner_lr) for x, y in data]
        w = w - config.learning.outer_lr * torch.stack(gradients).mean(0)
    assert torch.allclose(state.params, w, rtol=0, atol=1e-12)


def test_one_edge_with_everybody_equals_two_tier_per_fedavg():
    _, _, _, two_tier, _ = simulated("pfl")
    _, _, _, one_edge, _ = simulated("hpfl", "network.edges=1", "network.ues_per_edge=12", "planning.planner=joint")
    assert torch.equal(two_tier.params, one_edge.params)


def test_several_local_steps_and_edge_rounds_equal_an_independent_loop():
    config, dataset, simulation, state, records = simulated(
        "hpfl",
        "planning.planner=random",
        "learning.local_steps=2",
        "training.edge_rounds=3",
        "training.weighting=samples",
    )
    alpha, beta = config.learning.inner_lr, config.learning.outer_lr

    def edge_model(w, members):
        for _ in range(config.training.edge_rounds):
            locals_ = []
            for x, y in members:
                own = w
                for _ in range(config.learning.local_steps):
                    own = own - beta * perfedavg_gradient(own, x, y, alpha)
                locals_.append(own * len(y))
            w = torch.stack(locals_).sum(0) / sum(len(y) for _, y in members)
        return w

    edges = by_edge(dataset, simulation)
    samples = [sum(len(y) for _, y in members) for members in edges]
    w, held = simulation.start.params, [simulation.start.params] * len(edges)
    for record in records:
        moved = [(held[k] - edge_model(held[k], edges[k])) * samples[k] for k in record.scheduled]
        w = w - torch.stack(moved).sum(0) / sum(samples[k] for k in record.scheduled)
        for k in record.scheduled:
            held[k] = w
    assert torch.allclose(state.params, w, rtol=0, atol=1e-11)


@pytest.mark.parametrize("planner", ["random", "joint", "paper", "shpfl", "alternating"])
def test_staleness_never_exceeds_its_bound(planner):
    config, _, _, _, records = simulated(
        "hpfl", f"planning.planner={planner}", "training.rounds=20", "planning.max_edges=1"
    )
    assert max(record.max_staleness for record in records) <= config.planning.staleness_bound
    assert max(record.max_staleness for record in records) > 0


def test_round_latency_is_the_latest_scheduled_edge_and_time_adds_up():
    _, _, _, state, records = simulated("hpfl", "planning.planner=random")
    assert state.time_s == pytest.approx(sum(record.latency_s for record in records))
    assert all(record.latency_s > 0 for record in records)
