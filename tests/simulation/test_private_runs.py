"""Private runs: what leaves the cells, what is counted, when a budget ends a run, and what is refused."""

import numpy as np
import pytest
import torch
from test_rules_and_rows import SMALL, simulation, trained
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.config import ConfigError, fingerprint
from hpfl.experiment import run_experiment
from hpfl.privacy import Accountant
from hpfl.reporting.checkpoint import load_latest, save_checkpoint
from hpfl.training.loop import play_round
from hpfl.training.private_cells import Cells
from hpfl.training.sketch import make_projection

GAUSSIAN = ["privacy.mechanism=gaussian", "privacy.clip_norm=0.3", "privacy.noise_multiplier=2.0"]
CLIPPED = [*GAUSSIAN, "privacy.noise_multiplier=0.0"]
FULL = ["planning.planner=full"]
ADAPTIVE = ["privacy.adaptive=true", "privacy.quantile_noise_multiplier=4.0"]


def run(*overrides, **options):
    return run_experiment(
        hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides]), figures=False, hooks=hpfl.Hooks(), **options
    )


def clipped_means(made):
    cohort, fleet = made.parts.executor.learners.cohort, made.fleet
    ues = np.arange(fleet.num_ues)
    asked = {"ues": ues, "groups": fleet.edge_of_ue, "num_groups": 4, "streams": made.parts.streams, "key": 0}
    rows = cohort.updates(made.start.params, **asked, keep_per_ue=True).per_ue.double()
    norms = rows.norm(dim=1, keepdim=True)
    assert (norms > 0.3).any()
    return (rows * (0.3 / norms).clamp_max(1)).view(4, 5, -1).mean(1)


@pytest.mark.parametrize("at", ["cell", "edge"])
def test_what_leaves_a_cell_is_the_mean_of_clipped_updates_with_noise(at):
    made = simulation(*GAUSSIAN, f"privacy.noise_at={at}")
    seen, private = made.parts.executor.observe(made.start), made.parts.executor.learners.settings.private
    cells = Cells(np.arange(4), np.arange(20), made.fleet.edge_of_ue, 0)
    noise = private.unit_noise(cells, made.start.params.numel() + 1)[:, :-1] * (2.0 * 0.3 / 5)
    torch.testing.assert_close(seen.pending.double(), clipped_means(made) + noise, rtol=1e-4, atol=1e-5)
    assert np.allclose(seen.importance, (seen.pending.double() ** 2).sum(1))


def test_sketches_are_taken_of_what_is_noised_and_tell_no_more():
    made = simulation(*GAUSSIAN, "planning.importance=sketch")
    seen = made.parts.executor.observe(made.start)
    projection = make_projection(made.start.params.numel(), made.parts.streams)
    assert np.allclose(seen.sketches, projection(seen.pending).numpy())
    assert np.allclose(seen.importance, (seen.sketches**2).sum(1))


def test_clipping_to_what_nobody_reaches_without_noise_changes_nothing():
    plain = trained(simulation()).params
    clipped = trained(simulation(*CLIPPED, "privacy.clip_norm=1e6")).params
    torch.testing.assert_close(clipped, plain, rtol=1e-5, atol=1e-6)


def test_everybody_in_every_round_is_charged_the_closed_form():
    result = run(*GAUSSIAN, *FULL)
    told = [record["epsilon"] for record in result.rounds]
    assert told == pytest.approx([Accountant((2.0,), 1e-5).epsilon(n) for n in range(1, 7)], abs=1e-6)
    assert result.summary["epsilon"] == told[-1]
    assert (result.summary["delta"], result.summary["budget_spent"]) == (1e-5, False)


def test_counts_of_unclipped_updates_and_edge_rounds_are_in_the_sum():
    told = run(*GAUSSIAN, *FULL, *ADAPTIVE, "training.edge_rounds=3").rounds[-1]["epsilon"]
    assert told == pytest.approx(Accountant((2.0, 4.0), 1e-5).epsilon(18), abs=1e-6)


def test_only_edges_that_compute_anew_tell_anything():
    made = simulation(*GAUSSIAN)
    state, computed = made.start, np.zeros(4, dtype=int)
    for _ in range(5):
        computed += state.awaiting
        state, _ = play_round(state, made.parts, made.settings)
        assert state.privacy["releases"].tolist() == np.repeat(computed, 5).tolist()
    assert computed.min() < computed.max()


def test_ues_that_are_not_drawn_tell_nothing_and_no_amplification_is_claimed():
    made = simulation(*GAUSSIAN, *FULL, "life.sample_count=2")
    state, record = play_round(made.start, made.parts, made.settings)
    assert state.privacy["releases"].reshape(4, 5).sum(1).tolist() == [2, 2, 2, 2]
    assert record.epsilon == Accountant((2.0,), 1e-5).epsilon(1)
    planned = made.parts.executor.learners.settings.private.planned
    assert planned.tolist() == [2, 2, 2, 2]


def test_a_clip_norm_follows_its_own_cells_norms():
    made = simulation(*GAUSSIAN, *FULL, *ADAPTIVE, "privacy.clip_norm=1e-3", "privacy.quantile_step=1.0")
    end = trained(made)
    found = [rule["clip_norm"] for rule in end.edge_rules["now"].values()]
    assert len(set(found)) == 4
    assert min(found) > 1e-3


def test_no_run_spends_more_than_its_budget_and_its_last_round_is_evaluated():
    two, three = (Accountant((2.0,), 1e-5).epsilon(n) for n in (2, 3))
    result = run(*GAUSSIAN, *FULL, f"privacy.budget_epsilon={(two + three) / 2}")
    assert [record["epsilon"] <= two for record in result.rounds] == [True, True]
    assert result.completed
    assert result.summary["budget_spent"]
    assert result.rounds[-1]["personalised_accuracy"] is not None
    exactly = run(*GAUSSIAN, *FULL, f"privacy.budget_epsilon={three}")
    assert exactly.rounds[-1]["epsilon"] == three


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["life.sample_fraction=0.6", *ADAPTIVE, "privacy.noise_at=cell"],
        ["training.clock=event", "training.trigger=first", "life.edge_death=0.2"],
    ],
)
def test_a_private_run_goes_on_from_a_checkpoint_to_the_same_bits_and_the_same_account(tmp_path, more):
    made = simulation(*GAUSSIAN, *more)
    whole, half = trained(made), trained(made, watch=lambda state, record: state.round < 3)
    save_checkpoint(tmp_path, half, fingerprint="x")
    read = load_latest(tmp_path, fingerprint="x").state
    assert read.privacy["releases"].tolist() == half.privacy["releases"].tolist()
    again = trained(made, read)
    assert torch.equal(again.params, whole.params)
    assert again.privacy["releases"].tolist() == whole.privacy["releases"].tolist()
    assert again.edge_rules == whole.edge_rules


def test_edges_that_die_and_start_afresh_do_not_exceed_the_budget():
    budget = Accountant((2.0,), 1e-5).epsilon(4)
    more = ["life.edge_death=0.4", "training.rounds=20", f"privacy.budget_epsilon={budget}"]
    result = run(*GAUSSIAN, *more)
    assert len(result.rounds) < 20
    assert result.rounds[-1]["epsilon"] <= budget


def test_a_run_out_of_budget_that_is_resumed_plays_nothing_more(tmp_path):
    spent = [*GAUSSIAN, *FULL, f"privacy.budget_epsilon={Accountant((2.0,), 1e-5).epsilon(2)}"]
    first = run(*spent, out=tmp_path / "run")
    second = run(*spent, out=tmp_path / "run", resume=True)
    assert len(first.rounds) == len(second.rounds) == 2
    assert second.completed


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["training.edge_combine=median"], "training.edge_combine"),
        (["training.weighting=samples"], "training.weighting"),
        (["learning.uplink=rounding"], "learning.uplink"),
        (["life.leave=0.1"], "section life"),
        (["secure.aggregation=cell", "privacy.adaptive=true"], "nobody counts"),
        (["hostile.attack=sign-flip", "hostile.ues=[1]"], "hostile.attack"),
        (["privacy.noise_multiplier=0.0", "privacy.budget_epsilon=1.0"], "privacy.budget_epsilon"),
        (["privacy.budget_epsilon=0.1"], "the first round spends"),
        (["learning.method=local"], "sends nothing"),
    ],
)
def test_what_a_noised_sum_does_not_cover_is_refused_by_name(overrides, said):
    with pytest.raises((ConfigError, ValueError), match=said):
        simulation(*GAUSSIAN, *overrides)


def test_keys_that_no_mechanism_reads_change_no_fingerprint_and_are_told():
    plain = hpfl.load("quickstart-paper")
    assert fingerprint(plain) != fingerprint(hpfl.load("quickstart-paper", overrides=GAUSSIAN))
    idle = hpfl.config.idle_settings(hpfl.load("quickstart-paper", overrides=["privacy.clip_norm=0.5"]))
    assert any("privacy.clip_norm" in line for line in idle)


def test_who_runs_it_is_told_what_was_spent_and_why_it_ended(tmp_path):
    about = [*SMALL[:-1], "training.rounds=9", *GAUSSIAN, *FULL, "privacy.budget_epsilon=4.0", "learning.model=mlp"]
    changes = [word for change in about for word in ("--set", change)]
    told = CliRunner().invoke(app, ["run", "quickstart-paper", *changes, "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert "; the next round could exceed privacy.budget_epsilon = 4." in " ".join(told.output.split())
