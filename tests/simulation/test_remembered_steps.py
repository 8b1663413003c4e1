"""Planner `fastest` learns from the steps that were taken, whatever became of its plans."""

import numpy as np
import pytest
import torch

from hpfl.config import load
from hpfl.data.sources import load_dataset
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

SMALL = ["network.edges=4", "network.ues_per_edge=3", "planning.max_edges=3", "training.rounds=8"]
FIRST = ["training.clock=event", "training.trigger=first", "planning.max_edges=2"]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["life.edge_failure=0.4"],
        FIRST,
        ["training.broadcast=scheduled", "training.staleness_discount=1"],
        ["training.weighting=samples", "data.samples_per_ue=[20, 200]", "data.edge_skew=1.0", "learning.outer_lr=2"],
    ],
)
def test_the_way_that_is_remembered_is_the_way_the_model_went(more: list[str]) -> None:
    config = load("quickstart-paper", overrides=[*SMALL, "planning.planner=fastest", "evaluation.every=100", *more])
    made = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)
    start, project = made.start.params.double(), made.parts.executor.sketching.projection  # type: ignore[attr-defined]
    went, remembered = [np.zeros(64)], []

    def watch(state, record):
        went.append(project((start - state.params.double()) / config.learning.outer_lr).numpy())
        remembered.append(np.array(state.memory["path"]))  # what was known when this round was planned
        return True

    train(made.start, made.parts, made.settings, watch)
    for before, known in zip(went[:-1], remembered, strict=True):
        np.testing.assert_allclose(known, before, atol=1e-4 * np.linalg.norm(went[-1]))
    assert np.linalg.norm(went[-1]) > 0
