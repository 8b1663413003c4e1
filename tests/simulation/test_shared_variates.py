"""SCAFFOLD's shared control variate is the mean of those of all training UEs, but for what edges have not sent yet."""

import numpy as np
import pytest
import torch

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=[1, 2, 4]",
    "data.samples_per_ue=[5, 15]",
    "data.held_out_ues=1",
    "evaluation.every=1000",
    "learning.method=scaffold",
    "learning.local_steps=2",
    "learning.model=ue_and_rule_parts:narrow",
    "learning.dtype=float64",
    "planning.planner=round-robin",
    "planning.staleness_bound=8",
    "training.broadcast=scheduled",
    "training.rounds=9",
]


@pytest.mark.parametrize("together", [1, 2])
def test_the_shared_variate_is_the_mean_of_all_less_what_is_pending(together):
    config = hpfl.load(
        "quickstart-paper", overrides=[*SMALL, f"planning.max_edges={together}", "training.weighting=uniform"]
    )
    found = build_simulation(
        config, load_dataset(config.data.dataset), device=torch.device("cpu"), stopwatch=lambda: 0.0
    )
    own, gaps = found.task.spec.places["scaffold_control"], []
    trains = ~found.newcomers
    share = np.bincount(found.fleet.edge_of_ue[trains], minlength=3) / trains.sum()

    def watch(state, record):
        pending = sum(share[edge] * state.pending[edge][own] for edge in np.flatnonzero(~state.awaiting))
        mean = state.kept["method"][torch.from_numpy(trains)].mean(0)
        gaps.append(float((state.params[own] / config.learning.outer_lr - mean - pending).abs().max()))
        return True

    train(found.start, found.parts, found.settings, watch)
    assert max(gaps) < 1e-12
    assert len(gaps) == 9
