"""Sketches before the plan: what they say, and that their seconds, bits and joules are counted."""

import itertools

import numpy as np
import pytest
import torch

import hpfl
from hpfl.config import ConfigError
from hpfl.data.sources import load_dataset
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import play_round

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 20]",
    "evaluation.test_samples=10",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "planning.planner=random",
    "training.broadcast=scheduled",
    "training.rounds=6",
]


def simulated(*overrides):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])
    return build_simulation(config, load_dataset("mnist-mini", None), device=torch.device("cpu"), stopwatch=float)


def first_look(*overrides):
    simulation = simulated(*overrides)
    return simulation, simulation.parts.executor.observe(simulation.start)


def test_an_edge_s_sketch_is_that_of_its_update():
    simulation, seen = first_look("planning.importance=sketch")
    projection = simulation.parts.executor.sketching.projection
    np.testing.assert_allclose(seen.sketches, projection(seen.pending).numpy())
    np.testing.assert_allclose(seen.importance, (seen.sketches**2).sum(axis=1))
    assert seen.sketches.shape == (4, 64)


def test_importance_from_wide_sketches_is_near_the_exact_one():
    _, exact = first_look()
    _, estimated = first_look("planning.importance=sketch", "planning.sketch_size=4096")
    np.testing.assert_allclose(estimated.importance, exact.importance, rtol=0.15)


def test_computing_and_sketching_come_before_the_plan_once():
    _, plain = first_look()
    _, sketched = first_look("planning.importance=sketch")
    assert plain.spent_s == plain.spent_bits == 0.0
    assert sketched.spent_s > plain.links.compute_s.max()
    assert (sketched.links.compute_s == 0).all()
    assert sketched.spent_bits == (12 + 4) * 64 * 32
    assert (sketched.spent_j > 0).all()


@pytest.mark.parametrize("clock", ["round", "event"])
def test_only_edges_with_a_new_update_sketch_again(clock):
    simulation = simulated("planning.importance=sketch", f"training.clock={clock}")
    state, first = play_round(simulation.start, simulation.parts, simulation.settings)
    seen = simulation.parts.executor.observe(state)
    assert seen.spent_bits == 2 * (3 + 1) * 64 * 32
    idle = np.setdiff1d(np.arange(4), first.aggregated)
    members = np.isin(simulation.fleet.edge_of_ue, idle)
    assert (seen.spent_j[members] == 0).all()
    assert (seen.links.compute_s == 0).all()


def test_what_sketches_cost_is_in_the_records():
    rounds = {
        size: hpfl.run(
            hpfl.load(
                "quickstart-paper", overrides=[*SMALL, "planning.importance=sketch", f"planning.sketch_size={size}"]
            )
        ).rounds
        for size in (8, 512)
    }
    for name in ("uplink_bits", "latency_s"):
        assert all(wide[name] > small[name] for small, wide in zip(rounds[8], rounds[512], strict=True))
    assert rounds[512][0]["energy_j"] > rounds[8][0]["energy_j"]


def test_fastest_gets_sketches_unless_their_size_is_nothing():
    assert first_look("planning.planner=fastest")[1].sketches is not None
    assert first_look("planning.planner=fastest", "planning.sketch_size=0")[1].sketches is None
    assert first_look()[1].sketches is None


def test_importance_from_sketches_of_no_size_is_refused():
    with pytest.raises(ConfigError, match=r"planning\.sketch_size"):
        hpfl.load("quickstart-paper", overrides=["planning.importance=sketch", "planning.sketch_size=0"])


def test_fastest_runs_repeat_and_record_noise_and_steps():
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "planning.planner=fastest", "training.broadcast=auto"])
    first, second = (hpfl.run(config).rounds for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert {**one, "planning_s": 0} == {**other, "planning_s": 0}
    assert all(row["noise_scale"] > 0 for row in first)
    assert all(0 <= row["step_scale"] <= 1 for row in first)
    assert all(row["max_staleness"] == 0 for row in first)


@pytest.mark.parametrize("planner", ["fastest", "random"])
def test_the_timeline_has_no_gap_while_sketches_are_sent(planner):
    simulation = simulated(f"planning.planner={planner}", "planning.importance=sketch")
    state = simulation.start
    for _ in range(3):
        before_s = state.time_s
        state, record = play_round(state, simulation.parts, simulation.settings)
        for edge in range(4):
            own = [row for row in record.phases.rows() if row["edge"] == edge]
            assert own[0]["start_s"] == pytest.approx(before_s)
            assert own[-1]["end_s"] == pytest.approx(state.time_s)
            for one, following in itertools.pairwise(own):
                assert following["start_s"] == pytest.approx(one["end_s"])
