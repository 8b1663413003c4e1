"""Planner fastest in whole runs with everything charged: sooner than one random edge, and the same when resumed."""

import numpy as np
import pytest
import torch

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.planning.problem import ARRIVED
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

SMALL = [
    "network.edges=8",
    "network.ues_per_edge=3",
    "network.spectrum=phased",
    "network.downlink=charged",
    "planning.max_edges=8",
    "evaluation.test_samples=20",
]
AUTO = ["planning.planner=fastest", "learning.uplink=auto"]
ONE = ["planning.planner=random", "planning.max_edges=1", 'learning.uplink=["rounding"]', "training.broadcast=all"]


def simulation(*overrides):
    config = hpfl.load("quickstart", overrides=[*SMALL, *overrides])
    return build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def records_of(*overrides, until):
    """Records of a run until one says that it is enough."""
    made, records = simulation("training.rounds=40", "evaluation.every=2", *overrides), []
    train(made.start, made.parts, made.settings, lambda _, record: records.append(record) or not until(record))
    return records


def arrived(record):
    return (record.personalised_accuracy or 0.0) >= 0.8


def test_it_reaches_a_target_in_less_than_half_the_seconds_of_one_random_edge_with_eight_bits():
    ours = records_of(*AUTO, until=arrived)
    assert arrived(ours[-1])
    assert all(record.broadcast_s > 0 for record in ours)
    theirs = records_of(*ONE, until=lambda record: record.time_s > 2 * ours[-1].time_s)
    assert not any(map(arrived, theirs))
    assert theirs[-1].time_s > 2 * ours[-1].time_s


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path):
    made, records = simulation(*AUTO, "training.rounds=6", "evaluation.every=100", "life.edge_failure=0.2"), []

    def watch(state, record):
        records.append(record)
        if state.round == 3:
            save_checkpoint(tmp_path, state, fingerprint="f")
        return True

    whole, again = train(made.start, made.parts, made.settings, watch), []
    start = load_latest(tmp_path, fingerprint="f").state
    resumed = train(start, made.parts, made.settings, lambda _, record: again.append(record) or True)
    assert torch.equal(whole.params, resumed.params)
    assert (whole.time_s, whole.memory) == (resumed.time_s, resumed.memory)
    assert [record.scheduled for record in again] == [record.scheduled for record in records[3:]]


def test_nobody_sends_a_sketch_and_the_cloud_makes_those_of_what_arrived():
    made = simulation(*AUTO, "training.rounds=2", "evaluation.every=100")
    assert made.parts.executor.sketching is None
    state = train(made.start, made.parts, made.settings, lambda *_: True)
    came = state.memory[ARRIVED]
    assert set(came["updates"]) <= {str(edge) for edge in range(8)}
    assert all(len(sketch) == len(came["moved"]) for sketch in came["updates"].values())


def test_it_learns_from_arrivals_also_where_others_than_it_want_sketches():
    made = simulation(*AUTO, "planning.importance=sketch", "training.rounds=3", "evaluation.every=100")
    records = []
    train(made.start, made.parts, made.settings, lambda _, record: records.append(record) or True)
    assert records[-1].noise_scale is not None


def test_links_tell_the_joules_of_computing_on_a_new_model_whatever_is_left_of_it():
    made = simulation("planning.planner=random", "learning.uplink=[]", "training.clock=event", "training.rounds=1")
    executor, seen = made.parts.executor, made.parts.executor.observe(made.start).links
    later = train(made.start, made.parts, made.settings, lambda *_: True)
    left = executor.observe(later.but(awaiting=np.zeros(8, dtype=bool))).links
    np.testing.assert_array_equal(left.compute_j, seen.compute_j)
    assert left.compute_s.sum() < seen.compute_s.sum()
    cpu_hz = made.fleet.cpu_hz[seen.members]
    assert seen.compute_j == pytest.approx(1e-28 * cpu_hz**3 * seen.compute_s)
