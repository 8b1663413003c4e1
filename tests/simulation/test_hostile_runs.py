"""Simulated runs with hostile members: who sends what, what rules make of it, and that a stopped run goes on."""

import numpy as np
import pytest
import torch
from test_rules_and_rows import SMALL, simulation, trained

import hpfl
from hpfl.config import fingerprint
from hpfl.experiment import run_experiment
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.training.cloud_step import pose

FULL = ["planning.planner=full", "training.rounds=3"]
FLIP = ["hostile.attack=sign-flip", "hostile.attack_options.ratio=4.0"]
CODED = ["learning.uplink=rounding"]


def per_ue(made, key=0):
    cohort, fleet = made.parts.executor.learners.cohort, made.fleet
    ues = np.arange(fleet.num_ues)
    asked = {"ues": ues, "groups": fleet.edge_of_ue, "num_groups": 4, "streams": made.parts.streams, "key": key}
    return cohort.updates(made.start.params, **asked, keep_per_ue=True)


def test_a_hostile_ue_sends_what_the_attack_crafts_and_all_others_what_they_did():
    clean, attacked = per_ue(simulation()).per_ue, per_ue(simulation(*FLIP, "hostile.ues=[7]")).per_ue
    others = np.arange(20) != 7
    assert torch.equal(clean[others], attacked[others])
    norms = torch.linalg.vector_norm(clean[[5, 6, 8, 9]], dim=1)
    expected = -clean[7] / clean[7].norm() * 4.0 * norms.median()
    torch.testing.assert_close(attacked[7], expected)


def test_a_cohort_with_a_hostile_ue_gives_the_means_of_what_it_says_arrives():
    found = per_ue(simulation(*FLIP, "hostile.ues=[7]"))
    means = found.per_ue.view(4, 5, -1).double().mean(dim=1)
    torch.testing.assert_close(found.update.double(), means, rtol=1e-5, atol=1e-7)
    assert np.allclose(found.importance, (found.update.double() ** 2).sum(1))


@pytest.mark.parametrize("attack", ["alie", "ipm"])
def test_colluding_edges_see_the_honest_edges_updates(attack):
    clean = simulation(*FULL).parts.executor
    attacked = simulation(*FULL, f"hostile.attack={attack}", "hostile.edges=[1, 3]")
    honest = clean.observe(attacked.start).pending
    seen = attacked.parts.executor.observe(attacked.start)
    expected = attacked.parts.executor.learners.hostility.attack.crafted(honest[[1, 3]], honest[[0, 2]])
    torch.testing.assert_close(seen.pending[[1, 3]], expected)
    assert torch.equal(seen.pending[[0, 2]], honest[[0, 2]])
    assert np.allclose(seen.importance, (seen.pending.double() ** 2).sum(1))


def test_what_a_hostile_edge_sends_is_crafted_before_it_is_coded():
    made = simulation(*FULL, *FLIP, *CODED, "hostile.edges=[2]")
    executor, seen = made.parts.executor, made.parts.executor.observe(made.start)
    plan, _ = made.parts.planner(pose(made.start, seen, made.settings), {}, made.parts.streams.at("planner"))
    arrivals = executor.execute(made.start, seen, plan).arrivals
    clean = simulation(*FULL, *CODED).parts.executor.observe(made.start).pending
    for one in arrivals:
        sent, meant = one.update, seen.pending[one.member]
        assert not torch.equal(sent, meant)
        assert (sent - meant).norm() < 0.2 * meant.norm()
        assert (torch.dot(sent, clean[one.member]) < 0) == (one.member == 2)


def test_models_before_the_first_attacked_round_are_answered_honestly():
    honest, late = (
        simulation(*FULL, "hostile.ues=[]"),
        simulation(*FULL, *FLIP, "hostile.ues=[7]", "hostile.from_round=1"),
    )
    assert torch.equal(per_ue(honest).per_ue, per_ue(late).per_ue)
    assert not torch.equal(per_ue(honest, 1 << 20).per_ue, per_ue(late, 1 << 20).per_ue)


@pytest.mark.parametrize("who", ["hostile.ues=[3]", "hostile.edges=[0]"])
def test_flipped_labels_are_trained_on_by_the_hostile_alone(who):
    clean, attacked = per_ue(simulation()).per_ue, per_ue(simulation("hostile.attack=label-flip", who)).per_ue
    changed = (clean != attacked).any(dim=1).nonzero().flatten().tolist()
    assert changed == ([3] if "ues" in who else [0, 1, 2, 3, 4])


SITUATIONS = {
    "ues, event clock, losses": [
        "training.clock=event",
        "life.ue_failure=0.2",
        "life.leave=0.1",
        "hostile.attack=alie",
        "hostile.ues=0.2",
        "training.edge_combine=centred-clipping",
        "training.edge_combine_options.tau=0.0",
    ],
    "edges, coded, fastest": [
        "planning.planner=fastest",
        "learning.uplink=auto",
        "hostile.attack=sign-flip",
        "hostile.edges=[1]",
        "training.combine=centred-clipping",
    ],
    "both, backdoor, top-k": [
        "learning.uplink=top-k",
        "hostile.attack=backdoor",
        "hostile.edges=[1]",
        "hostile.ues=0.2",
        "hostile.from_round=2",
        "training.edge_rounds=2",
        "training.edge_combine=geometric-median",
    ],
}


@pytest.mark.parametrize("what", SITUATIONS)
def test_an_attacked_run_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, what):
    made, states = simulation(*SITUATIONS[what]), {}

    def watch(state, record):
        states[state.round] = state
        return True

    whole = trained(made, watch=watch)
    save_checkpoint(tmp_path, states[3], fingerprint="f")
    resumed = trained(simulation(*SITUATIONS[what]), load_latest(tmp_path, fingerprint="f").state)
    assert torch.equal(resumed.params, whole.params)
    clean = trained(simulation(*(word for word in SITUATIONS[what] if not word.startswith("hostile"))))
    assert not torch.equal(clean.params, whole.params)


def test_a_backdoors_success_is_recorded_and_hostile_ues_are_named(tmp_path):
    settings = ["evaluation.every=2", "hostile.attack=backdoor", "hostile.ues=[0, 7]"]
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *settings])
    result = run_experiment(config, out=tmp_path / "run", figures=False, device="cpu")
    assert 0 <= result.rounds[-1]["backdoor_success"] <= 1
    assert 0 <= result.rounds[-1]["personalised_backdoor_success"] <= 1
    assert np.flatnonzero(result.ues["hostile"]).tolist() == [0, 7]
    header = (tmp_path / "run" / "ues.csv").read_text().splitlines()[0]
    assert "hostile" in header
    assert "personalised_backdoor_success" in header


def told(*overrides):
    with pytest.raises(hpfl.ConfigError) as caught:
        simulation(*overrides)
    return str(caught.value)


def test_attacks_that_cannot_be_are_refused_by_name_and_value():
    assert 'hostile.attack is "ipm"; say who' in told("hostile.attack=ipm")
    assert "hostile.ues has 20; there are 0 to 19" in told(*FLIP, "hostile.ues=[20]")
    assert "hostile.edges is 0.1; of 4 that is none" in told(*FLIP, "hostile.edges=0.1")
    assert "a share should be between 0 and 1" in told(*FLIP, "hostile.ues=3")
    assert "no attack is called 'bribe'; there are none, sign-flip" in told("hostile.attack=bribe")
    patch = ["hostile.attack=backdoor", "hostile.ues=0.2", "hostile.attack_options.size=99"]
    assert 'hostile.attack is "backdoor": a patch of 99 pixels does not fit' in told(*patch)
    blind = ["hostile.attack=backdoor", "hostile.ues=0.2", "evaluation.metrics=['test-loss']"]
    assert 'its success needs "accuracy" in evaluation.metrics' in told(*blind)


def test_a_section_that_nobody_uses_changes_no_fingerprint():
    config = hpfl.load("quickstart-paper")
    assert fingerprint(config) == fingerprint(hpfl.load("quickstart-paper", overrides=["hostile.attack=none"]))
    assert fingerprint(config) != fingerprint(hpfl.load("quickstart-paper", overrides=[*FLIP, "hostile.ues=0.2"]))


def ends(*overrides):
    return trained(simulation(*overrides)).params


BOUNDED = ["training.edge_combine=adaptive-bound", "training.combine=adaptive-bound"]


@pytest.mark.parametrize("more", [[], ["training.weighting=samples", "training.edge_rounds=2"]])
def test_where_no_norm_exceeds_the_adaptive_bound_bits_are_those_without_it(more):
    far = [f"training.{key}_options.ratio=1e6" for key in ("edge_combine", "combine")]
    plain, bounded = ends(*FULL, *more), ends(*FULL, *more, *BOUNDED, *far)
    assert torch.equal(plain, bounded)


def test_the_adaptive_bound_holds_a_sign_flip_that_turns_the_mean_round():
    flip = ["hostile.attack=sign-flip", "hostile.attack_options.ratio=30.0", "hostile.ues=[7]"]
    clean = ends(*FULL)
    lost, kept = ((ends(*FULL, *flip, *more) - clean).norm() for more in ([], BOUNDED))
    assert kept < 0.1 * lost
