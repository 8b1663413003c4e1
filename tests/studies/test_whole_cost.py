"""Study `whole-cost`: what is run when, what is chosen on development seeds, and what the tables say of it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from study_runs import SMALL
from typer.testing import CliRunner
from whole_cost_runs import made_up, played

import hpfl
from hpfl.cli import app
from hpfl.data.sources import load_dataset
from hpfl.simulation.simulated_run import build_simulation
from hpfl.studies import whole_cost, whole_cost_places
from hpfl.studies.cases import FULL, QUICK
from hpfl.studies.tabulate import where
from hpfl.studies.whole_cost_places import DEVELOPMENT, UNSEEN
from hpfl.studies.whole_cost_short import SLOW_EDGE, TIMES_SLOWER, slowed
from hpfl.studies.whole_cost_tables import BEST_FIXED
from hpfl.studies.whole_cost_ways import LONG_OURS, OURS, PUBLISHED, fixed_choices, has_converged, lost

runner = CliRunner()


def quickest(part, *, best_step=0.5, ours=1.0):
    """`fastest` takes 1 s; others 4 s with their best step and ternary updates, twice as long otherwise."""
    labels = part.labels
    if labels["contender"] in {OURS, "fastest, all off"} or labels["contender"].startswith("fastest/auto/auto/step"):
        return ours
    return 4.0 * (1 if labels["outer_lr"] == best_step else 2) * (1 if labels["codec"] == "ternary" else 2)


@pytest.fixture(scope="module")
def study():
    return played(quickest)


@pytest.fixture(scope="module")
def made(study):
    return whole_cost.tables(study[1])


# What is run


def test_every_run_has_a_name_of_its_own_and_a_place_in_a_group(study):
    parts = list(study[0].values())
    assert len({(part.key, part.labels["group"], part.labels["contender"]) for part in parts}) == len(parts)
    groups = {name.split("/")[2] for name in study[0]}
    wanted = {"development", "ours", "published", "rivals", "fixed", "decomposition", "joules", "converged", "all-off"}
    assert groups == wanted == {part.labels["group"] for part in parts}
    assert len(parts) < 250


def test_the_whole_grid_is_what_the_bars_ask_for():
    everywhere = [place for place in whole_cost_places.places(FULL) if not place.off]
    assert {place.key for place in everywhere} >= {("mnist", "skew-0"), ("mnist", "skew-1"), ("cifar10", "skew-1")}
    for place in everywhere:
        ways = {one.ways[0][:3] for one in fixed_choices(place)}
        assert all({way.outer_lr for way in one.ways} == set(place.steps) for one in fixed_choices(place))
        if place.data == "mnist" and place.name != "5x40":
            assert len(ways) == (5 * 2 + 1) * 5
        if place.data == "cifar10":
            assert {way[:2] for way in ways} == set(
                product(("random-1", "random-4", "full"), ("32 bits", "ternary", "top 1 %"))
            )


def test_seeds_that_judge_are_none_that_choose(study):
    for part in study[0].values():
        seeds = DEVELOPMENT if part.labels["group"] == "development" else range(UNSEEN, UNSEEN + 5)
        assert part.labels["seed"] in seeds
        assert part.config.training.seed == part.labels["seed"]


def test_nothing_is_judged_before_its_grid_was_tried():
    first = whole_cost.parts(QUICK, [0])
    assert all(part.labels["group"] == "development" or part.labels["outer_lr"] is None for part in first)
    grid = [part for part in first if part.labels["group"] == "development"]
    half = [made_up(part, 4.0) for part in grid if part.labels["planner"] == "full"]
    names = {part.labels["contender"] for part in whole_cost.then(QUICK, [0], half) if part.labels["group"] == "rivals"}
    assert names == {"full"}


def test_only_the_best_ways_are_tried_on_further_development_seeds(monkeypatch):
    monkeypatch.setattr(whole_cost, "development_seeds", lambda _scale: DEVELOPMENT)
    parts, _ = played(quickest, seeds=(0,))
    tried = {seed: [p for p in parts.values() if p.labels["seed"] == seed] for seed in DEVELOPMENT}
    assert 0 < len(tried[DEVELOPMENT[1]]) < len(tried[DEVELOPMENT[0]])
    assert any(part.labels["group"] == "rivals" for part in parts.values())


@pytest.mark.parametrize("best_step", [0.07, 0.5])
def test_the_way_that_development_seeds_prefer_is_judged(best_step):
    parts, _ = played(lambda part: quickest(part, best_step=best_step), seeds=(0,))
    for part in parts.values():
        if part.labels["group"] in {"rivals", "fixed"}:
            assert part.labels["outer_lr"] == best_step
        if part.labels["group"] == "rivals":
            assert part.labels["codec"] == "ternary"


def test_a_way_that_does_not_arrive_is_not_chosen():
    def told(part):
        return None if part.labels["codec"] == "ternary" else quickest(part)

    parts, _ = played(told, seeds=(0,))
    assert {part.labels["codec"] for part in parts.values() if part.labels["group"] == "rivals"} == {"32 bits"}


@pytest.mark.parametrize(("seconds", "here", "elsewhere"), [(100.0, 1, 1), (12.0, 1, 2), (9.0, 2, 2)])
def test_hopeless_fixed_choices_are_left_out_sooner_where_they_were_chosen(seconds, here, elsewhere):
    def told(part):
        return seconds if part.labels["planner"] == "full" else quickest(part)

    parts, _ = played(told, seeds=(0,))
    fixed = [part.labels for part in parts.values() if part.labels["group"] == "fixed"]
    for place, count in (("skew-0", here), ("1-mhz", elsewhere)):
        assert len({row["planner"] for row in fixed if row["place"] == place}) == count


def test_fastest_runs_for_as_many_seconds_as_full_took_to_converge(study):
    long = [part for part in study[0].values() if part.labels["contender"] == LONG_OURS]
    assert len(long) == 5
    assert {part.stop_at_s for part in long} == {1.5 * 4.0}
    assert all(part.stop_at_accuracy is None for part in long)


def evaluated(*accuracies):
    return [{"personalised_accuracy": value, "meta_loss": 1.0} for value in accuracies]


def test_converged_is_where_ten_evaluations_gain_less_than_a_tenth_of_a_point():
    rising = [0.5 + 0.001 * number for number in range(20)]
    assert not has_converged(evaluated(*rising))
    assert has_converged(evaluated(*rising, *[0.52] * 20))
    assert not has_converged(evaluated(*[0.1] * 30))


def test_a_development_run_that_has_lost_what_it_learned_is_given_up():
    assert lost(evaluated(0.1, 0.9, 0.5, 0.3, 0.3, 0.3, 0.7, 0.3))
    assert not lost(evaluated(0.1, 0.9, 0.5, 0.3))
    assert not lost(evaluated(0.1, 0.9, 0.5, 0.3, 0.3, 0.3, 0.85, 0.3))
    assert not lost(evaluated(*[0.1 * number for number in range(9)]))


# What the tables say


def bar(made, words, place="skew-0"):
    return next(row for row in where(made["bars"], place=place) if words in row["bar"])


def test_rivals_are_set_against_fastest_seed_by_seed(made):
    row = next(row for row in where(made["versus"], place="skew-0", group="rivals", rival="full"))
    assert row["speedup"] == pytest.approx(4.0)
    assert (row["codec"], row["outer_lr"], row["seeds"]) == ("ternary", 0.5, 5)


def test_the_best_fixed_choice_is_that_of_the_geometric_mean(made):
    row = next(row for row in where(made["versus"], place="1-mhz", rival=BEST_FIXED))
    assert row["speedup"] == pytest.approx(4.0)
    assert "ternary" in row["which"]
    assert bar(made, "fixed choices", "1-mhz")["met"]


def test_a_fixed_choice_that_is_faster_misses_the_bar():
    _, found = played(lambda part: quickest(part, ours=4.5))
    row = bar(whole_cost.tables(found), "fixed choices")
    assert row["measured"] == pytest.approx(4.5 / 4.0)
    assert not row["met"]


def test_the_gain_is_told_factor_by_factor(made):
    every = {(row["factor"], row["others"]): row["gain"] for row in where(made["factors"], place="skew-0")}
    assert every["step", "off"] == pytest.approx(2.0)
    assert every["codec", "off"] == pytest.approx(2.0)
    assert every["everything", "off"] == pytest.approx(16.0)
    assert {others for _, others in every} == {"on", "off"}


def test_joules_of_a_priced_run_are_held_against_one_random_edge():
    _, found = played(quickest)
    for part in found:
        if part["labels"]["contender"] == "fastest, joules priced":
            part["rounds"]["energy_j"] = [5.0] * 6
    row = bar(whole_cost.tables(found), "seconds with priced joules")
    assert row["measured"] == pytest.approx(16.0)
    assert not row["met"]


def test_all_off_the_new_version_is_held_against_the_one_before(made):
    row = bar(made, "the version before", "off-as-it-is")
    assert row["measured"] == pytest.approx(16.0)
    assert row["met"]


def test_accuracy_is_compared_once_full_has_converged(made):
    row = bar(made, "once it has converged")
    assert row["measured"] == pytest.approx(0.0)
    assert row["seeds"] == 5


def test_the_picture_is_drawn_and_missed_bars_are_named(made, tmp_path):
    assert [path.suffix for path in whole_cost.STUDY.draw(made, tmp_path)] == [".svg", ".png", ".md"]
    report = (tmp_path / "tables.md").read_text()
    assert "| `full` | ternary | 0.5 | all | 4.00" in report
    assert report.count("\n## ") + 1 == 7
    notes = whole_cost.STUDY.notes(made)
    assert len(notes) == sum(not row["met"] for row in made["bars"])


def test_cells_say_what_the_downlink_takes(made):
    cell = next(row for row in where(made["cells"], contender=PUBLISHED))
    assert cell["broadcast_share"] == pytest.approx(0.5)
    assert cell["downlink_bits"] == pytest.approx(4.0)


# Real runs


def test_the_ues_of_one_edge_are_ten_times_slower():
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "network.edges=5"])
    simulation = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=lambda: 0.0)
    fleet = slowed(simulation).executor.fleet
    times = simulation.fleet.cpu_hz / fleet.cpu_hz
    np.testing.assert_array_equal(times, np.where(fleet.edge_of_ue == SLOW_EDGE, TIMES_SLOWER, 1.0))


def test_a_staged_study_runs_what_follows_and_nothing_twice(tmp_path, monkeypatch):
    small = replace(
        whole_cost_places.QUICK[0], changes=tuple(SMALL), sizes=(1,), rivals=("full",), steps=(0.07, 0.5), rounds=4,
        decomposed=False, long_rounds=0, seconds_per_joule=0.0, codecs=("32 bits",), slow_edge=False,
    )  # fmt: skip
    monkeypatch.setattr(whole_cost_places, "QUICK", (small,))
    command = ["reproduce", "whole-cost", "--quick", "--seeds", "1", "--device", "cpu", "--workers", "1"]
    answer = runner.invoke(app, [*command, "--out", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("*.json")}
    assert {path.relative_to(tmp_path / "parts").parts[2] for path in files} == {
        "development", "ours", "published", "rivals", "fixed",
    }  # fmt: skip
    assert (tmp_path / "whole-cost" / "bars.csv").exists()
    answer = runner.invoke(app, [*command, "--out", str(tmp_path), "--only", "fixed"])
    assert answer.exit_code == 0, answer.output
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("*.json")}
    assert "What is wanted" in answer.output
