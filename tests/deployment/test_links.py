"""The modelled radio of a real run: what the simulator draws, and a refusal of what has no meaning there."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from deployment_nodes import SMALL, Nodes

import hpfl
from hpfl.assembly import make_radio, menu_on_air, sending_of
from hpfl.config import resolve
from hpfl.data.sources import load_dataset
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.node_parts import LinkModel, node_cost
from hpfl.deployment.settings import SettingsError
from hpfl.network.channel import Gains
from hpfl.rng import Streams
from hpfl.simulation.simulated_run import build_simulation


def simulated(*overrides):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])
    dataset = load_dataset(config.data.dataset)
    return config, build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)


def deployed(config, simulation):
    config = resolve(config)
    menu = menu_on_air(config, sending_of(config, simulation.task, torch.device("cpu")))
    cost = node_cost(config, simulation.task)
    streams = Streams(config.training.seed)
    return LinkModel(config=config, menu=menu, cost=cost, radio=make_radio(config), streams=streams)


class ByPlace:
    """A channel that needs coordinates, whom a UE belongs to and the block."""

    def gains(self, block, places, streams):
        lots = streams.at("by place", block).uniform(places.num_edges)
        ue = np.exp(-0.01 * (places.ue_xy_m @ [1.0, 2.0]) ** 2 / 1e4) * (1.0 + lots[places.edge_of_ue])
        return Gains(ue=ue, edge=1.0 + lots + places.edge_distance_m)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("network.ue_path_loss=umi", "network.edge_path_loss=uma"),
        ("network.coherence_rounds=2",),
        ("planning.planner=random", "learning.charged_passes=counted"),
    ],
)
def test_links_are_those_the_simulator_draws(overrides):
    config, simulation = simulated(*overrides)
    theirs = simulation.parts.executor.observe(simulation.start).links
    ours = deployed(config, simulation).links(0, np.arange(4), simulation.fleet.num_samples)
    np.testing.assert_array_equal(ours.ue_gain, theirs.ue_gain)
    np.testing.assert_array_equal(ours.edge_gain, theirs.edge_gain)
    np.testing.assert_array_equal(ours.compute_s, theirs.compute_s)
    np.testing.assert_array_equal(ours.compute_j, theirs.compute_j)


@pytest.mark.parametrize("channel", [None, ByPlace()], ids=["shipped", "by place"])
def test_both_executors_see_the_same_channel_in_every_round(channel):
    """Also where it goes by coordinates, in any round, and when only some of the UEs are there."""
    config, simulation = simulated("network.coherence_rounds=2", "network.ue_path_loss=umi")
    executor, links = simulation.parts.executor, deployed(config, simulation)
    if channel is not None:
        executor = replace(executor, radio=replace(executor.radio, channel=channel))
        links = replace(links, radio=replace(links.radio, channel=channel))
    seen, some = [], np.array([0, 2, 3])
    for number in range(5):
        theirs = executor.observe(simulation.start.but(round=number)).links
        ours = links.links(number, some, simulation.fleet.num_samples[some])
        np.testing.assert_array_equal(ours.ue_gain, theirs.ue_gain[some])
        np.testing.assert_array_equal(ours.edge_gain, theirs.edge_gain)
        seen.append(ours.ue_gain.tolist())
    assert seen[0] == seen[1] != seen[2] == seen[3] != seen[4]


@pytest.mark.parametrize(
    "override",
    ["network.trace=gains.csv", "network.write_trace=gains.csv", "network.coherence_s=0.05", "life.ue_failure=0.1"],
)
def test_what_only_a_simulator_can_is_refused_by_name(override):
    config = hpfl.load("quickstart-paper", overrides=["training.clock=event", override])
    with pytest.raises(SettingsError, match=override.split("=")[0].removesuffix(".ue_failure")):
        refuse_what_only_a_simulator_can(config)


SKETCHED = ("planning.importance=sketch", "planning.planner=scripted", "planning.script=[[0]]", "training.rounds=2")


def test_joules_of_computing_are_counted_once_for_everybody_who_computed(certificates):
    """Edge 1 is never called: its UEs compute in the first round energy_j."""
    config, simulation = simulated(*SKETCHED)
    energy_j = {}

    def watch(state, record):
        energy_j[record.round] = record.energy_j
        return True

    with Nodes(certificates, *SKETCHED, tiny=True) as nodes:
        nodes.start_all()
        nodes.play(watch=watch)
        model, samples = nodes.deployment.executor.links, np.full(4, 7)
        joules = nodes.state.joules
    computing = model.compute_j(np.arange(4), samples)
    assert (computing > 0).all()
    np.testing.assert_allclose(joules[2:], computing[2:])
    assert (joules[:2] > 2 * computing[:2]).all()
    assert energy_j[1] > computing.sum()
    assert energy_j[2] > computing[:2].sum()
    theirs = simulation.parts.executor.observe(simulation.start).spent_j
    ours = deployed(config, simulation).compute_j(np.arange(4), simulation.fleet.num_samples)
    assert (ours <= theirs).all()
    np.testing.assert_allclose(ours, theirs, rtol=0.05)  # theirs holds the air time of the sketches
