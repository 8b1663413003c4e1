"""Whole runs with real learning: life off changes nothing, lost UEs leave the mean, resumed runs are the same."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.network.failures import struck
from hpfl.rng import Streams
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train
from hpfl.training.record import MEASURED_FIELDS

SMALL = [
    "network.edges=5",
    "network.ues_per_edge=4",
    "data.samples_per_ue=[5, 20]",
    "learning.dtype=float64",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=8",
]
RUNS = {
    "random": ["planning.planner=random"],
    "shpfl": ["planning.planner=shpfl"],
    "all": ["planning.planner=random", "training.broadcast=all", "training.weighting=samples"],
}
GOLDEN = json.loads((Path(__file__).parent / "golden_rounds.json").read_text())
"""Made by `simulated(*RUNS[name])` and the fields below before there was an event clock or any life."""

LIFE = [
    "training.clock=event",
    "training.trigger=first",
    "planning.planner=shpfl",
    "network.coherence_s=0.3",
    "life.sample_fraction=0.7",
    "life.leave=0.1",
    "life.deadline_s=1.0",
    "life.ue_failure=0.1",
    "life.edge_failure=0.1",
    "life.edge_death=0.05",
    "life.speed_m_per_s=[1.0, 20.0]",
]


def config(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


def simulated(*overrides):
    simulation = build_simulation(
        config(*overrides), load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0
    )
    records = []
    state = train(
        simulation.start, simulation.parts, simulation.settings, lambda _, record: records.append(record) or True
    )
    return simulation, state, records


@pytest.mark.parametrize("name", RUNS)
def test_a_network_without_life_plays_the_rounds_it_always_did(name):
    simulation, state, records = simulated(*RUNS[name])
    golden = GOLDEN[name]
    assert [list(record.scheduled) for record in records] == golden["scheduled"]
    for field in ("time_s", "uplink_bits", "energy_j", "importance"):
        assert [getattr(record, field) for record in records] == pytest.approx(golden[field], rel=1e-9)
    assert float(state.params.sum()) == pytest.approx(golden["param_sum"], rel=1e-9)
    assert float((state.params**2).sum()) == pytest.approx(golden["param_square"], rel=1e-9)
    links = simulation.parts.executor.observe(state).links
    for field in ("ue_gain", "edge_gain", "compute_s"):
        assert getattr(links, field).sum() == pytest.approx(golden[field], rel=1e-12)
    assert state.clock == {}


def test_life_whose_chances_are_nil_changes_no_bit():
    _, plain, records = simulated("planning.planner=random")
    _, living, alike = simulated("planning.planner=random", "life.deadline_s=1e9", "life.come_back=0.1")
    assert torch.equal(plain.params, living.params)
    assert records == alike
    assert np.array_equal(plain.joules, living.joules)


def test_the_event_clock_trains_the_same_model_and_is_never_slower():
    """Who is scheduled does not depend on time with a random planner, so the models agree."""
    _, by_round, slow = simulated("planning.planner=random")
    _, by_event, fast = simulated("planning.planner=random", "training.clock=event")
    assert torch.equal(by_round.params, by_event.params)
    assert by_event.time_s < by_round.time_s
    assert [record.scheduled for record in slow] == [record.scheduled for record in fast]


def test_an_aggregated_update_is_the_mean_of_the_ues_that_got_through():
    overrides = ["planning.planner=full", "training.rounds=1"]
    _, after, (record,) = simulated(*overrides, "life.ue_failure=0.4")
    simulation, _, _ = simulated(*overrides)
    learners, start = simulation.parts.executor.learners, simulation.start
    failed = struck(Streams(0).at("failure/ue", 0), 20, 0.4)
    means = []
    for edge in record.aggregated:
        own = np.flatnonzero((simulation.fleet.edge_of_ue == edge) & ~failed)
        one = learners.cohort.updates(
            start.params, ues=own, groups=np.zeros_like(own), num_groups=1, streams=Streams(0), key=0, keep_per_ue=True
        )
        means.append(one.per_ue.mean(0))
    expected = start.params - 0.07 * torch.stack(means).mean(0)
    assert 0 < failed.sum() == record.num_lost
    assert torch.allclose(after.params, expected, rtol=0, atol=1e-12)


def repeatable(rounds):
    return [{key: value for key, value in row.items() if key not in MEASURED_FIELDS} for row in rounds]


@pytest.mark.parametrize("stop_after", [1, 4])
def test_a_run_with_an_event_clock_and_all_of_life_resumes_to_the_same_bits(tmp_path, stop_after):
    lively = config(*LIFE, "training.checkpoint_every=2", "training.rounds=10")
    whole = hpfl.run(lively, out=tmp_path / "whole", figures=False)
    seen = []
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == stop_after)
    hpfl.run(lively, out=tmp_path / "parts", figures=False, hooks=hooks)
    resumed = hpfl.run(lively, out=tmp_path / "parts", figures=False, resume=True)
    assert repeatable(resumed.rounds) == repeatable(whole.rounds)
    assert all(torch.equal(whole.model[name], resumed.model[name]) for name in whole.model)
    lines = [(tmp_path / name / "timeline.jsonl").read_text() for name in ("whole", "parts")]
    assert lines[0] == lines[1]
    assert sum(row["num_lost"] for row in whole.rounds) > 0


def test_evaluating_some_ues_leaves_the_rest_blank_and_the_training_alone(tmp_path):
    some = hpfl.run(config("evaluation.ues=6"), out=tmp_path / "run", figures=False)
    everyone = hpfl.run(config())
    assert all(torch.equal(some.model[name], everyone.model[name]) for name in some.model)
    evaluated = np.isfinite(some.ues["loss"])
    assert evaluated.sum() == 6
    assert np.allclose(some.ues["loss"][evaluated], everyone.ues["loss"][evaluated])
    assert np.allclose(some.ues["personalised_accuracy"][evaluated], everyone.ues["personalised_accuracy"][evaluated])
    assert some.rounds[-1]["loss"] == pytest.approx(np.mean(some.ues["loss"][evaluated]))
    assert len((tmp_path / "run" / "ues.csv").read_text().splitlines()) == 21


def test_massive_in_small_plays_its_rounds():
    small = ["network.edges=20", "network.ues_per_edge=50", "training.rounds=2", "evaluation.ues=20"]
    result = hpfl.run(hpfl.load("massive", overrides=small))
    assert [row["num_participants"] for row in result.rounds] == [100, 100]
    assert [row["num_aggregated"] for row in result.rounds] == [20, 20]
    assert result.summary["num_ues"] == 1000
