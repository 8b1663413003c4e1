"""Study `privacy`: its runs spend what they are called by, and its tables and notes say what runs came to."""

import pytest

from hpfl.privacy import Accountant
from hpfl.studies import privacy
from hpfl.studies.cases import FULL, QUICK
from hpfl.sweeps.runner import results, run_parts


def found(system, epsilon, accuracy, seed=0):
    means = {"personalised_accuracy": accuracy, "global_accuracy": accuracy - 0.1}
    return {"labels": {"system": system, "epsilon": epsilon, "seed": seed}, "means": means, "spent": None}


@pytest.mark.parametrize("epsilon", privacy.EPSILONS)
def test_all_rounds_together_spend_the_epsilon_of_a_run(epsilon):
    settings = privacy._part(FULL, 0, "hpfl", epsilon).config.privacy
    spent = Accountant((settings.noise_multiplier,), settings.delta).epsilon(privacy.ROUNDS)
    assert settings.on
    assert spent == pytest.approx(float(epsilon), rel=1e-6)


def test_systems_differ_in_how_ues_learn_and_have_names_of_their_own():
    parts = privacy.parts(FULL, [0, 1])
    assert len({part.name for part in parts}) == len(parts) == 2 * 3 * len(privacy.EPSILONS)
    config = {system: privacy._part(FULL, 0, system, "2").config for system in privacy.SYSTEMS}
    assert config["hpfl"].learning.inner_lr > 0
    assert config["hfl"].learning.inner_lr == 0
    assert config["fedavg-ft"].learning.method == "fedavg-ft"
    assert {one.privacy.noise_multiplier for one in config.values()} == {privacy.noise_multiplier("2")}


def test_tables_and_notes_tell_what_each_system_loses(tmp_path):
    every = [
        found(s, e, 0.9 if e == "inf" else 0.8, seed) for s in privacy.SYSTEMS for e in ("inf", "2") for seed in (0, 1)
    ]
    made = privacy.tables(every)
    assert [(row["system"], row["epsilon"]) for row in made["means"]][:2] == [("hpfl", "2"), ("hpfl", "inf")]
    assert privacy.notes(made)[0].startswith("HPFL has 90.0 % without noise; points lost by epsilon: 10.0 at 2")
    assert len(privacy.STUDY.draw(made, tmp_path)) == 2


def test_a_part_runs_and_is_found_again(tmp_path):
    parts = [privacy._part(QUICK, 0, "hpfl", epsilon) for epsilon in ("8", "inf")]
    for part in parts:
        part.config.training.rounds = 2
    assert run_parts(parts, tmp_path, device="cpu")
    runs = {row["epsilon"]: row for row in privacy.tables(results(parts, tmp_path))["runs"]}
    assert 0 < runs["8"]["spent_epsilon"] < 8
    assert runs["inf"]["spent_epsilon"] is None
    assert all(0 < row["personalised_accuracy"] <= 1 for row in runs.values())
