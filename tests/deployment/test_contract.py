import pytest
import torch
from deployment_nodes import SMALL, Nodes

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.simulation.build import build_simulation
from hpfl.training.loop import train


def simulated(config):
    """Parameters after every round, in the simulator."""
    dataset = load_dataset(config.data.dataset)
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)
    after = []

    def watch(state, record):
        after.append(state.params.clone())
        return True

    train(simulation.start, simulation.parts, simulation.settings, watch)
    return after


CASES = {
    "full": [],
    "random with stale edges": ["planning.planner=random", "planning.max_edges=1", "training.rounds=6"],
    "samples, mini-batches, local steps": [
        "training.weighting=samples",
        "learning.batch_size=4",
        "learning.batches=independent",
        "learning.local_steps=2",
    ],
    "two edge rounds in float64": ["training.edge_rounds=2", "learning.dtype=float64"],
}


@pytest.mark.parametrize("case", CASES)
def test_deployed_parameters_are_the_simulated_ones_after_every_round(case, certificates):
    overrides = CASES[case]
    expected = simulated(hpfl.load("quickstart", overrides=[*SMALL, *overrides]))
    with Nodes(certificates, *overrides) as nodes:
        nodes.start_all()
        deployed = nodes.play()
    assert len(deployed) == len(expected)
    for one, other in zip(deployed, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-6
    assert float((expected[-1] - expected[0]).abs().max()) > 1e-3
