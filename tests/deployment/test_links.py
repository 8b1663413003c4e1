"""The modelled radio of a real run: what the simulator draws, and a refusal of what has no meaning there."""

import numpy as np
import pytest
import torch
from deployment_nodes import SMALL

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.deployment.assembly import LinkModel
from hpfl.deployment.build import refuse_what_only_a_simulator_can
from hpfl.deployment.settings import SettingsError
from hpfl.rng import Streams
from hpfl.simulation.build import build_simulation


def simulated(*overrides):
    config = hpfl.load("quickstart", overrides=[*SMALL, *overrides])
    dataset = load_dataset(config.data.dataset)
    return config, build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)


def deployed(config, simulation):
    bits = float(simulation.task.spec.num_parameters * config.network.bits_per_parameter)
    return LinkModel(config=config, model_bits=bits, streams=Streams(config.training.seed))


@pytest.mark.parametrize(
    "overrides", [(), ("network.ue_path_loss=umi", "network.edge_path_loss=uma"), ("network.coherence_rounds=2",)]
)
def test_links_are_those_the_simulator_draws(overrides):
    config, simulation = simulated(*overrides)
    theirs = simulation.parts.executor.observe(simulation.start).links
    ours = deployed(config, simulation).links(0, np.arange(4), simulation.fleet.num_samples)
    np.testing.assert_array_equal(ours.ue_gain, theirs.ue_gain)
    np.testing.assert_array_equal(ours.edge_gain, theirs.edge_gain)


@pytest.mark.parametrize(
    "override",
    ["network.trace=gains.csv", "network.write_trace=gains.csv", "network.coherence_s=0.05", "life.ue_failure=0.1"],
)
def test_what_only_a_simulator_can_is_refused_by_name(override):
    config = hpfl.load("quickstart", overrides=["training.clock=event", override])
    with pytest.raises(SettingsError, match=override.split("=")[0].removesuffix(".ue_failure")):
        refuse_what_only_a_simulator_can(config)
