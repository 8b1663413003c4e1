"""The study runner and the study `time-to-accuracy`: parts done once, merged by copying, summed up rightly."""

import json
import shutil
from dataclasses import replace

import pytest
from study_runs import part, runs

from hpfl.reporting.intervals import geometric
from hpfl.reporting.store import OutputError
from hpfl.studies import picture
from hpfl.studies import time_to_accuracy as study
from hpfl.studies.bars import bars, comparisons, slower
from hpfl.studies.converged import converged_rows
from hpfl.studies.tables import write_rows
from hpfl.sweeps import runner
from hpfl.sweeps.parts import done
from hpfl.sweeps.runner import results


def test_parts_are_done_once_and_skipped_after(tmp_path):
    parts = [part("a/one"), part("a/two")]
    assert runs(parts, tmp_path)
    written = {p.name: p.file(tmp_path).stat().st_mtime_ns for p in parts}
    assert runs(parts, tmp_path)
    assert written == {p.name: p.file(tmp_path).stat().st_mtime_ns for p in parts}


def test_a_part_of_another_configuration_is_run_again(tmp_path):
    assert runs([part()], tmp_path)
    assert done(part(rounds=4), tmp_path) is None
    assert done(part(), tmp_path) is not None


def test_two_studies_do_not_work_in_one_folder(tmp_path):
    with runner.alone(tmp_path), pytest.raises(OutputError, match="another hpfl sweep, hpfl tune or hpfl reproduce"):
        runs([part()], tmp_path)
    assert runs([part()], tmp_path)


def test_half_a_file_counts_as_nothing(tmp_path):
    assert runs([part()], tmp_path)
    text = part().file(tmp_path).read_text()
    part().file(tmp_path).write_text(text[: len(text) // 2])
    assert done(part(), tmp_path) is None


def test_folders_of_parts_made_apart_merge_by_copying(tmp_path):
    one, two = part("x/one"), part("x/two")
    runs([one], tmp_path / "here")
    runs([two], tmp_path / "there")
    shutil.copytree(tmp_path / "there", tmp_path / "here", dirs_exist_ok=True)
    assert len(results([one, two], tmp_path / "here")) == 2


def test_side_by_side_gives_what_one_by_one_gives(tmp_path):
    parts = [part("one"), part("two", rounds=4)]
    assert runs(parts, tmp_path / "a")
    assert runs(parts, tmp_path / "b", workers=2)
    for one, other in zip(results(parts, tmp_path / "a"), results(parts, tmp_path / "b"), strict=True):
        assert one["rounds"]["meta_loss"] == other["rounds"]["meta_loss"]


def test_a_part_ends_at_its_target_or_its_time(tmp_path):
    early = part("early", rounds=40, stop_at_accuracy=0.01)
    timed = part("timed", rounds=40, stop_at_s=0.1)
    assert runs([early, timed], tmp_path)
    assert len(done(early, tmp_path)["rounds"]["time_s"]) == 3  # as many evaluations as make a target count
    assert len(done(timed, tmp_path)["rounds"]["time_s"]) < 40


def test_a_run_that_diverges_is_a_result(tmp_path):
    wild = part()
    wild.config.learning.outer_lr = 1e30
    assert runs([wild], tmp_path)
    assert done(wild, tmp_path)["diverged"]


def test_the_geometric_mean_of_a_constant_is_certain():
    found = geometric([7.0, 7.0, 7.0])
    assert (found.mean, found.low, found.high, found.count) == pytest.approx((7.0, 7.0, 7.0, 3))
    assert geometric([5.0]).low is None
    assert geometric([]) is None


SETTINGS = {"mnist": replace(study.FULL["mnist"], skews=(0.0,), clocks=("round",), targets=(0.5,))}


def run_row(planner, seed, seconds, broadcast="all", *, reached=True):
    return {
        "data": "mnist",
        "clock": "round",
        "edge_skew": 0.0,
        "target": 0.5,
        "planner": planner,
        "seed": seed,
        "broadcast": broadcast,
        "reached": reached,
        "time_s": seconds if reached else None,
        "run_s": seconds,
    }


def test_a_broadcast_tried_with_fewer_seeds_is_not_the_better_one_by_chance():
    rows = [run_row("fastest", seed, 1.0, "auto") for seed in (0, 1)]
    rows += [run_row("paper", 0, 8.0), run_row("paper", 1, 16.0), run_row("paper", 0, 2.0, "scheduled")]
    [versus] = [row for row in comparisons(rows, SETTINGS) if row["rival"] == "paper"]
    assert (versus["broadcast"], versus["seeds"]) == ("all", 2)


def test_of_broadcasts_that_do_not_arrive_the_one_that_diverges_sooner_is_not_the_better():
    rows = [run_row("fastest", seed, 1.0, "auto") for seed in (0, 1)]
    rows += [run_row("paper", seed, 50.0, reached=False) for seed in (0, 1)]
    rows += [run_row("paper", seed, 3.0, "scheduled", reached=False) for seed in (0, 1)]
    [versus] = [row for row in comparisons(rows, SETTINGS) if row["rival"] == "paper"]
    assert (versus["broadcast"], versus["at_least"], versus["speedup"]) == ("all", True, pytest.approx(50.0))


def test_a_run_that_diverges_in_its_first_round_is_never_the_better_and_has_no_ratio():
    rows = [run_row("fastest", seed, 1.0, "auto") for seed in (0, 1)]
    rows += [run_row("paper", 0, 50.0, reached=False), run_row("paper", 1, 0.0, reached=False)]
    rows += [run_row("paper", seed, 3.0, "scheduled", reached=False) for seed in (0, 1)]
    rows += [run_row("shpfl", 0, 4.0), run_row("shpfl", 1, 0.0, reached=False)]
    rows += [run_row("full", seed, 0.0, reached=False) for seed in (0, 1)]
    found = {row["rival"]: row for row in comparisons(rows, SETTINGS)}
    assert found["paper"]["broadcast"] == "scheduled"
    assert (found["shpfl"]["speedup"], found["shpfl"]["seeds"]) == (pytest.approx(4.0), 1)
    assert (found["shpfl"]["at_least"], found["shpfl"]["decided"]) == (True, False)
    assert (found["full"]["speedup"], found["full"]["seeds"], found["full"]["decided"]) == (0.0, 0, False)


def test_where_fastest_diverges_in_its_first_round_no_bar_is_met():
    rows = [run_row("fastest", 0, 0.0, "auto", reached=False), run_row("paper", 0, 50.0)]
    [versus] = [row for row in comparisons(rows, SETTINGS) if row["rival"] == "paper"]
    assert (versus["speedup"], versus["fastest_arrived"], versus["met"]) == (0.0, False, False)


def test_of_broadcasts_with_which_as_many_arrive_the_quicker_is_the_better():
    rows = [run_row("fastest", seed, 1.0, "auto") for seed in (0, 1)]
    rows += [run_row("paper", 0, 500.0), run_row("paper", 1, 1000.0, reached=False)]
    rows += [run_row("paper", 0, 20.0, "scheduled"), run_row("paper", 1, 1000.0, "scheduled", reached=False)]
    [versus] = [row for row in comparisons(rows, SETTINGS) if row["rival"] == "paper"]
    assert versus["broadcast"] == "scheduled"


def test_the_best_fixed_number_is_one_of_those_run_with_most_seeds():
    rows = [run_row("fastest", seed, 1.0, "auto") for seed in (0, 1)]
    rows += [run_row("random-1", 0, 4.0), run_row("random-1", 1, 4.0), run_row("random-2", 0, 2.0)]
    [best] = [row for row in comparisons(rows, SETTINGS) if row["rival"] == "best fixed"]
    assert (best["which"], best["seeds"]) == ("random-1", 2)


def test_rivals_count_with_their_better_broadcast_and_by_seed():
    rows = [run_row("fastest", 0, 1.0, "auto"), run_row("fastest", 1, 2.0, "auto")]
    rows += [run_row("paper", 0, 8.0), run_row("paper", 1, 16.0), run_row("paper", 0, 99.0, "scheduled")]
    rows += [run_row("random-1", 0, 3.0), run_row("random-1", 1, 3.0), run_row("random-2", 0, 2.0)]
    rows += [run_row("random-2", 1, 4.0, reached=False)]
    found = {row["rival"]: row for row in comparisons(rows, SETTINGS)}
    assert found["paper"]["speedup"] == pytest.approx(8.0)
    assert found["paper"]["low"] == pytest.approx(8.0)
    assert found["paper"]["met"]
    assert found["random-2"]["at_least"]
    assert found["best fixed"]["which"] == "random-1"


def test_a_row_of_a_run_counts_up_to_the_target():
    columns = {name: [1.0, 1.0, 1.0, 1.0] for name in ("energy_j", "uplink_bits", "planning_s", "num_scheduled")}
    columns |= {"time_s": [1.0, 2.0, 3.0, 4.0], "personalised_accuracy": [0.1, 0.6, 0.6, 0.7]}
    labels = {"data": "mnist", "planner": "paper"}
    row = study.run_rows([{"labels": labels, "rounds": columns, "diverged": None}], SETTINGS)[0]
    assert (row["time_s"], row["energy_j"], row["reached"]) == (2.0, 2.0, True)


def test_tables_are_csv_and_json_of_the_same_rows(tmp_path):
    write_rows(tmp_path, "t", [{"a": 1, "b": None}, {"a": 2, "c": "x"}])
    assert (tmp_path / "t.csv").read_text() == "a,b,c\n1,,\n2,,x\n"
    assert json.loads((tmp_path / "t.json").read_text())[1] == {"a": 2, "c": "x"}


def test_the_full_study_names_every_part_once():
    names = [each.name for each in study.parts(study.FULL, range(2))]
    assert len(names) == len(set(names))


def found_part(planner, seed, curve, *, aim=None, diverged=None):
    seconds, accuracy = zip(*curve, strict=True)
    labels = {"data": "mnist", "clock": "round", "edge_skew": 0.0, "planner": planner, "seed": seed}
    labels |= {"broadcast": "auto" if planner == "fastest" else "all"} | ({"aim": aim} if aim else {})
    rounds = {name: [0.001] * len(curve) for name in ("energy_j", "uplink_bits", "planning_s", "num_scheduled")}
    rounds |= {"time_s": list(seconds), "personalised_accuracy": list(accuracy)}
    return {"labels": labels, "rounds": rounds, "diverged": diverged}


def test_accuracy_is_compared_where_full_was_last_measured():
    full = found_part("full", 0, [(5.0, 0.7), (10.0, 0.9), (20.0, 0.95)], aim="converged")
    ours = found_part("fastest", 0, [(1.0, 0.9), (19.0, 0.948), *[(21.0, 0.1)] * 3], aim="converged")
    row = converged_rows([full, ours])[0]
    assert (row["seconds"], row["fastest_accuracy"]) == (20.0, 0.948)
    assert row["lead_points"] == pytest.approx(-0.2)
    assert row["late_points"] == pytest.approx(5.0)
    assert row["diverged"]
    bar = next(bar for bar in bars([full, ours], SETTINGS) if "accuracy" in bar["bar"])
    assert bar["met"]
    assert bar["wanted"] == -0.5


def test_runs_to_convergence_are_not_timed():
    assert study.run_rows([found_part("full", 0, [(1.0, 0.9)] * 3, aim="converged")], SETTINGS) == []


def test_every_bar_has_a_row_and_tells_what_missed_it():
    good = [(1.0, 0.6), (2.0, 0.6), (3.0, 0.6)]
    found = [found_part("fastest", 0, good), found_part("full", 0, [(9.0, 0.1), *[(20.0, 0.6)] * 3])]
    found += [found_part("paper", 0, [(4.0, 0.6)] * 3), found_part("shpfl", 0, [(30.0, 0.6)] * 3)]
    found += [found_part("fastest", 1, [(1.0, 0.4), *[(2.0, 0.1)] * 3]), found_part("full", 1, [(9.0, 0.6)] * 3)]
    rows = {row["bar"]: row for row in bars(found[:4], SETTINGS)}
    assert not rows["times faster than paper"]["met"]
    assert rows["times faster than shpfl"]["met"]
    assert rows["times faster than best fixed (full)"]["met"]
    assert rows["planning time of a round, ms"]["measured"] == pytest.approx(1.0)
    assert rows["runs that diverge where full does not"]["met"]
    wild = {row["bar"]: row for row in bars(found, SETTINGS)}["runs that diverge where full does not"]
    assert (wild["measured"], wild["met"]) == (1, False)


def test_where_fastest_is_not_the_fastest_a_line_says_so():
    rows = [run_row("fastest", 0, 2.0, "auto"), run_row("random-1", 0, 1.0), run_row("random-2", 0, 1.5, reached=False)]
    versus = comparisons(rows, SETTINGS)
    lines = slower(versus)
    assert len(lines) == 2
    assert "random-1 takes 0.50 times" in lines[0]
    assert "had not arrived" in lines[1]


def test_what_the_bars_ask_for_is_run_first():
    names = [each.name for each in study.parts({"mnist": study.FULL["mnist"]}, [0])]
    first = names[: next(index for index, name in enumerate(names) if "converged" in name)]
    assert all(name.startswith("mnist/round") and "scheduled" not in name and "skew-0.5" not in name for name in first)
    assert len(first) == 2 * len(study.PLANNERS)
    assert all(name.startswith("mnist/event") for name in names[-60:])


def test_the_price_of_age_is_dropped_where_updates_are_old():
    parts = [each for each in study.parts(study.FULL, [0]) if "no-price" in each.name]
    assert len(parts) == 6
    for each in parts:
        assert each.config.planning.staleness_price == "none"
        assert each.config.training.broadcast == "scheduled"


def test_two_tier_systems_run_beside_the_planners():
    parts = {each.labels["planner"]: each.config for each in study.parts({"mnist": study.FULL["mnist"]}, [0])}
    assert parts["FL"].network.edges == 1
    assert parts["HFL"].learning.inner_lr == 0.0
    assert parts["PFL"].learning.inner_lr > 0.0


def cell(planner, seconds, *, seeds=3, reached=3, broadcast="all"):
    place = {"data": "mnist", "clock": "round", "edge_skew": 0.0, "target": 0.5, "planner": planner}
    interval = {"time_s": seconds, "time_low_s": seconds and 0.9 * seconds, "time_high_s": seconds and 1.1 * seconds}
    return {**place, **interval, "broadcast": broadcast, "seeds": seeds, "reached": reached}


def test_the_picture_wants_something_to_compare_and_trusts_the_cell_with_most_seeds(tmp_path):
    fastest, rivals = cell("fastest", 1.0, broadcast="auto"), [cell("full", 9.0), cell("full", 2.0, seeds=1, reached=1)]
    assert picture.draw([fastest], {"mnist": 0.5}, tmp_path) == []
    assert picture.draw([fastest, cell("full", 9.0, reached=2)], {"mnist": 0.5}, tmp_path) == []
    assert {path.suffix for path in picture.draw([fastest, *rivals], {"mnist": 0.5}, tmp_path)} == {".svg", ".png"}
    assert picture._best(rivals, "full")["time_s"] == 9.0
    none, lucky = cell("full", None, reached=0), cell("full", 2.0, seeds=1, reached=1)
    assert picture.draw([fastest, none, lucky], {"mnist": 0.5}, tmp_path) == []
