"""Studies in which everybody chooses for itself: on other seeds than judge it, on samples nobody is tested on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from study_runs import SMALL, runs

import hpfl
from hpfl.config import resolve
from hpfl.data.sources import load_dataset
from hpfl.dealing import deal
from hpfl.rng import Streams
from hpfl.studies import adaptation, own_step
from hpfl.studies.cases import FULL, QUICK
from hpfl.sweeps.parts import StudyPart, done


def arrived(seconds, *, planner, step, seed, broadcast="all", skew=0.0):
    """A run that holds the target from its third round on, each of so many seconds."""
    count = 5
    columns = {"personalised_accuracy": [0.1, 0.5, *[0.95] * 3], "meta_loss": [1.0] * count, "time_s": []}
    columns |= {name: [1.0] * count for name in ("energy_j", "uplink_bits", "planning_s", "num_scheduled")}
    columns["time_s"] = [seconds / 3 * number for number in range(1, count + 1)]
    role = "development" if seed in own_step.DEVELOPMENT else "judged"
    place = {"data": "mnist", "clock": "round", "edge_skew": skew, "planner": planner, "broadcast": broadcast}
    return {"labels": place | {"seed": seed, "outer_lr": step, "role": role}, "rounds": columns, "diverged": None}


def study(best_step):
    """`fastest` and `full` with two steps; on the development seeds `full` is best with `best_step`."""
    found = []
    for seed in (*own_step.DEVELOPMENT, 0, 1, 2):
        judged = seed not in own_step.DEVELOPMENT
        found += [arrived(10.0, planner="fastest", step=step, seed=seed, broadcast="auto") for step in (0.07, 0.5)]
        for step in (0.07, 0.5):
            seconds = 99.0 if judged else (20.0 if step == best_step else 40.0)
            found.append(arrived(seconds + 100 * step * judged, planner="full", step=step, seed=seed))
    return own_step.tables(found)


@pytest.mark.parametrize("best_step", [0.07, 0.5])
def test_steps_are_chosen_on_development_seeds_and_judged_on_others(best_step):
    made = study(best_step)
    choice = next(row for row in made["choices"] if row["planner"] == "full")
    assert choice["outer_lr"] == best_step
    own, preset = (
        next(row for row in made["speedups"] if row["rival"] == "full" and row["step"] == step)
        for step in ("own", "preset")
    )
    assert preset["speedup"] == pytest.approx((99.0 + 7.0) / 10.0)
    assert own["speedup"] == pytest.approx((99.0 + 100 * best_step) / 10.0)
    assert own["seeds"] == 3


def test_a_step_with_which_fewer_seeds_arrive_is_not_chosen():
    late = [arrived(20.0, planner="full", step=0.07, seed=seed) for seed in (*own_step.DEVELOPMENT, 0)]
    quick = [arrived(2.0, planner="full", step=0.5, seed=seed) for seed in (*own_step.DEVELOPMENT, 0)]
    quick[0]["rounds"]["personalised_accuracy"] = [0.1] * 5
    assert own_step.tables([*late, *quick])["choices"][0]["outer_lr"] == 0.07


def test_every_planner_has_every_step_on_every_seed_once():
    parts = own_step.parts(FULL, [0, 1])
    assert len({part.name for part in parts}) == len(parts)
    assert {part.labels["outer_lr"] for part in parts} == set(own_step.STEPS)
    assert {part.labels["seed"] for part in parts} == {0, 1, *own_step.DEVELOPMENT}
    assert all(part.config.learning.outer_lr == part.labels["outer_lr"] for part in parts)
    assert {part.labels["planner"] for part in parts} == set(own_step.PLANNERS)
    assert len(own_step.parts(QUICK, [0])) <= 32


def test_the_picture_of_own_steps_is_drawn(tmp_path):
    assert [path.suffix for path in own_step.draw(study(0.5), tmp_path)] == [".svg", ".png"]


CONFIG = hpfl.load("quickstart-paper", overrides=[*SMALL, "training.rounds=2", "planning.planner=full"])


def test_validation_samples_have_a_ues_labels_and_belong_to_nobody():
    dataset, streams = load_dataset("mnist-mini"), Streams(0)
    dealt = deal(resolve(CONFIG), dataset, streams)
    made = adaptation.validation_data(dataset, dealt, streams)
    owned = {dataset.inputs[row].tobytes() for row in dealt.shards.source_rows()[0]}
    for ue in range(dealt.shards.num_ues):
        rows = made.shards.rows(np.array([ue]))[0]
        assert len(rows) == adaptation.VALIDATION_SAMPLES
        assert set(made.targets[rows].tolist()) <= set(np.flatnonzero(dealt.label_counts[ue]).tolist())
        pixels = (made.inputs[rows] * 255).round().to(torch.uint8).numpy()
        assert not {image.tobytes() for image in pixels} & owned


def test_a_run_is_judged_with_the_adaptation_that_validation_prefers(tmp_path):
    labels = {"data": "mnist-mini", "system": "hpfl", "planner": "full", "seed": 0}
    part = StudyPart(name="a/one", labels=labels, config=CONFIG, probe=adaptation.adapted_each_way)
    assert runs([part], tmp_path)
    found = done(part, tmp_path)
    assert {(row["inner_lr"], row["inner_steps"]) for row in found["adapted"]} == {
        (rate, steps) for rate in adaptation.RATES for steps in adaptation.STEPS
    }
    chosen = adaptation.tables([{**found, "labels": labels}])["chosen"][0]
    assert chosen["validation_accuracy"] == max(row["validation_accuracy"] for row in found["adapted"])
    plain = hpfl.run(CONFIG, hooks=hpfl.Hooks())
    usual = next(row for row in found["adapted"] if (row["inner_lr"], row["inner_steps"]) == (0.03, 1))
    assert usual["test_accuracy"] == pytest.approx(plain.summary["final_personalised_accuracy"], abs=1e-6)


def test_the_second_c1_compares_the_chosen_adaptations_seed_by_seed():
    def run(system, seed, rows):
        labels = {"data": "mnist", "system": system, "planner": "full", "seed": seed}
        columns = ("inner_lr", "inner_steps", "validation_accuracy", "test_accuracy", "meta_loss")
        adapted = [dict(zip(columns, row, strict=True)) for row in rows]
        return {"labels": labels, "adapted": adapted, "diverged": None}

    found = []
    for seed in range(5):
        found.append(run("hpfl", seed, [(0.03, 1, 0.9, 0.91, 0.2), (0.1, 5, 0.5, 0.99, 0.1)]))
        found.append(run("hfl", seed, [(0.03, 1, 0.8, 0.99, 0.1), (0.1, 5, 0.85, 0.95 + 0.001 * seed, 0.3)]))
    accuracy, loss = (one for one in adaptation.statements(adaptation.tables(found)) if ", full," in one.text)
    np.testing.assert_allclose(accuracy.values, [0.91 - 0.95 - 0.001 * seed for seed in range(5)])
    assert accuracy.verdict == "does not hold"
    assert loss.verdict == "holds"


def test_adaptation_shares_the_runs_of_figures_3_and_4_but_for_what_is_measured_at_the_end():
    parts = adaptation.parts(FULL, [0])
    assert len(parts) == 12
    assert all(part.probe is adaptation.adapted_each_way and part.name.startswith("adaptation/") for part in parts)
    assert all(replace(part, probe=None).key != part.key for part in parts)
