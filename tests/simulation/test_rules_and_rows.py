"""Runs in which combine rules remember and UEs keep rows of their own: what they do, and that a killed run goes on."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.simulation.learners import Learners
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=5",
    "data.samples_per_ue=[5, 20]",
    "learning.model=ue_and_rule_parts:narrow",
    "evaluation.every=100",
    "evaluation.test_samples=5",
    "planning.planner=random",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=6",
]
LOSSES = ["training.clock=event", "life.ue_failure=0.2", "life.leave=0.1", "life.sample_fraction=0.8"]
PRIVATE = ["learning.method=ue_and_rule_parts:PrivateHead", "learning.uplink=ue_and_rule_parts:Coarse"]
"""UEs have private heads, and an uplink that leaves something over."""
TRIMMED, MOMENTUM = "ue_and_rule_parts:trimmed_mean", "ue_and_rule_parts:momentum"
KEPT_MEAN = "hpfl.training.combine:weighted_mean"
"""The mean as a function that says nothing of itself: an edge keeps all updates for it."""


def simulation(*overrides):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])
    return build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)


def trained(made, state=None, *, watch=lambda state, record: True):
    return train(state or made.start, made.parts, made.settings, watch)


def test_an_edges_rule_is_given_its_own_ues_updates():
    made = simulation(f"training.edge_combine={TRIMMED}")
    cohort, start = made.parts.executor.learners.cohort, made.start
    pending = made.parts.executor.observe(start).pending
    ues = np.arange(made.fleet.num_ues)
    everyone = {"ues": ues, "groups": made.fleet.edge_of_ue, "num_groups": 4, "streams": made.parts.streams, "key": 0}
    per_ue = cohort.updates(start.params, **everyone, keep_per_ue=True).per_ue.double()
    for edge in range(4):
        rows = per_ue[made.fleet.edge_of_ue == edge].sort(dim=0).values
        torch.testing.assert_close(pending[edge].double(), rows[1:-1].mean(0), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("more", [[], [*LOSSES, "training.edge_rounds=2", "training.weighting=samples"]])
def test_the_mean_of_all_updates_at_once_is_the_mean_added_up(more):
    streamed, kept = trained(simulation(*more)), trained(simulation(*more, f"training.edge_combine={KEPT_MEAN}"))
    torch.testing.assert_close(kept.params, streamed.params, rtol=1e-5, atol=1e-6)
    assert kept.edge_rules == {}


def test_edges_are_computed_in_stretches_that_fit_the_memory():
    made = simulation(f"training.edge_combine={TRIMMED}")
    learners = made.parts.executor.learners
    small = replace(learners, settings=replace(learners.settings, memory_gb=6 * made.start.params.nbytes / 1e9))
    parts = replace(made.parts, executor=replace(made.parts.executor, learners=small))
    torch.testing.assert_close(trained(replace(made, parts=parts)).params, trained(made).params)


@pytest.mark.parametrize("rule", [TRIMMED, MOMENTUM])
def test_a_run_with_rules_at_both_tiers_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, rule):
    life = [*LOSSES, *PRIVATE, "training.edge_rounds=2"]
    both = [*life, f"training.combine={rule}", f"training.edge_combine={rule}"]
    saved = []

    def watch(state, record):
        saved.append(save_checkpoint(tmp_path, state, fingerprint="f"))
        return state.round < 3

    trained(simulation(*both), watch=watch)
    found = load_latest(tmp_path, fingerprint="f").state
    assert found is not None
    resumed, whole = trained(simulation(*both), found), trained(simulation(*both))
    assert same(whole, resumed)
    plain = trained(simulation(*life))
    assert not torch.equal(whole.params, plain.params)
    assert bool(whole.cloud_rule) == bool(whole.edge_rules) == (rule == MOMENTUM)


def same(one, other):
    """Bit by bit, whatever they are made of."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if hasattr(one, "keys"):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return same(vars(one), vars(other)) if hasattr(one, "__dict__") else one == other


KILLED = """
import os, signal, sys
import hpfl

config = hpfl.load("quickstart-paper", overrides=sys.argv[2:])
die = lambda record: os.kill(os.getpid(), signal.SIGKILL) if record.round == 5 else None
hpfl.run(config, out=sys.argv[1], figures=False, hooks=hpfl.Hooks(on_round=die))
"""


def test_a_run_that_was_killed_goes_on_with_its_rule_and_its_ues_rows(tmp_path):
    rule = f"training.combine={MOMENTUM}"
    overrides = [*SMALL, *LOSSES, *PRIVATE, rule, "training.checkpoint_every=2", "training.rounds=8"]
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent / "src")])
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), *overrides]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    config = hpfl.load("quickstart-paper", overrides=overrides)
    resumed = hpfl.run(config, out=tmp_path / "run", resume=True, figures=False)
    whole = hpfl.run(config)
    assert all(torch.equal(whole.model[name], resumed.model[name]) for name in whole.model)
    assert np.array_equal(whole.ues["personalised_test_loss"], resumed.ues["personalised_test_loss"], equal_nan=True)


def test_private_heads_differ_between_ues_and_never_travel():
    made = simulation(*PRIVATE, "planning.planner=full")
    state = trained(made)
    head = made.task.spec.entries("3.")
    assert torch.equal(state.params[head], made.start.params[head])
    assert not torch.equal(state.params, made.start.params)
    heads = state.kept["method"][:, :-1]
    assert len(torch.unique(heads, dim=0)) == made.fleet.num_ues
    assert (state.kept["method"][:, -1] == 6).all()
    assert state.kept["uplink"].abs().max() <= 1 / 128


def test_figures_are_those_of_the_model_a_ue_keeps():
    made = simulation(*PRIVATE, "planning.planner=full")
    state = trained(made)
    own, begun = made.evaluate_ues(state), made.evaluate_ues(state.but(kept={}))
    assert np.array_equal(own.test_loss, begun.test_loss, equal_nan=True)
    assert not np.array_equal(own.personalised_test_loss, begun.personalised_test_loss, equal_nan=True)
    some = simulation(*PRIVATE, "planning.planner=full", "evaluation.ues=6")
    few = some.evaluate_ues(state).personalised_test_loss
    chosen = np.isfinite(few)
    assert chosen.sum() == 6
    np.testing.assert_allclose(few[chosen], own.personalised_test_loss[chosen], rtol=1e-5)


def test_who_computes_again_for_a_lost_ue_starts_from_what_it_had(monkeypatch):
    """Both count: the method how often a UE has computed, the rule how often an edge has combined."""
    plain, by_ues, by_edges, again = Learners.renewed, np.zeros(20), np.zeros(4), np.zeros(4)

    def counted(self, pending, edges, params, *, members, edge_of, **more):
        if more.get("again"):
            again[edges] += 1
        else:
            by_edges[edges] += 1
            by_ues[members[edges[edge_of]]] += 1
        return plain(self, pending, edges, params, members=members, edge_of=edge_of, **more)

    monkeypatch.setattr(Learners, "renewed", counted)
    state = trained(simulation(*LOSSES, *PRIVATE, "life.deadline_s=0.5", f"training.edge_combine={MOMENTUM}"))
    assert again.sum() > 0
    assert state.kept["method"][:, -1].tolist() == by_ues.tolist()
    assert [state.edge_rules["now"][str(edge)]["steps"] for edge in range(4)] == by_edges.tolist()


def test_bits_on_the_air_are_those_of_what_travels():
    made = simulation(*PRIVATE, "planning.planner=full", "training.rounds=1", "training.edge_rounds=2")
    seen = []
    trained(made, watch=lambda state, record: seen.append(record) or True)
    travelling = made.task.spec.num_parameters - len(made.task.spec.entries("3."))
    assert seen[0].uplink_bits == 20 * 2 * 16 * travelling + 4 * 32 * travelling


def test_a_run_without_any_of_it_keeps_and_remembers_nothing():
    state = trained(simulation(*LOSSES))
    assert (state.kept, state.cloud_rule, state.edge_rules) == ({}, {}, {})
