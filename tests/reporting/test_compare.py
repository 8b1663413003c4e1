import io
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting_runs import folder_of, history, record, seeded, view
from rich.console import Console

from hpfl.config import load, to_toml
from hpfl.reporting.against_local import worse_off
from hpfl.reporting.compare import compare_command_output, compare_runs, compare_views, explanations, show, table
from hpfl.reporting.compare_figure import compare_figure
from hpfl.reporting.group_rows import rows
from hpfl.reporting.groups import Group, grouped
from hpfl.reporting.runs import RunView, load_run, load_runs
from hpfl.reporting.schedules import same_edges
from hpfl.reporting.store import OutputError
from hpfl.reporting.targets import LOSS, Target
from hpfl.reporting.ue_spread import fate_of_ues
from hpfl.reporting.ways import Ways, common_target, ratio, way_to, ways_to
from hpfl.reporting.why import why

RISING = [0.1 * n for n in range(1, 10)]


def ways(*runs: RunView, target: float = 0.5) -> Ways:
    """The ways of runs that are one group."""
    return ways_to(Group(label=runs[0].label, runs=runs), Target(target))


def test_every_run_has_one_row_of_plain_json(tmp_path: Path) -> None:
    fast = folder_of(tmp_path / "fast", history(RISING, latency_s=1.0), planner="joint")
    slow = folder_of(tmp_path / "slow", history(RISING[:5], latency_s=4.0), planner="shpfl")
    comparison = compare_runs([fast, slow])
    assert [row["label"] for row in comparison.rows] == ["fast", "slow"]
    assert [row["system"] for row in comparison.rows] == ["HPFL", "SHPFL"]
    assert [row["planner"] for row in comparison.rows] == ["joint", "shpfl"]
    assert [row["rounds"] for row in comparison.rows] == [9, 5]
    assert (comparison.target, comparison.target_origin) == (Target(0.3), "highest that all reach")
    assert [row["time_to_target_s"] for row in comparison.rows] == [3.0, 12.0]
    assert json.loads(json.dumps(comparison.rows, allow_nan=False)) == list(comparison.rows)


def test_the_configured_target_is_used_where_all_reach_it() -> None:
    runs = [view("a", RISING, target=0.5), view("b", RISING, target=0.5)]
    assert common_target(runs) == (Target(0.5), "as configured")
    assert common_target([*runs, view("c", [0.4] * 3, target=0.5)]) == (Target(0.4), "highest that all reach")
    assert common_target([*runs, view("c", RISING, target=0.6)])[1] == "highest that all reach"


def test_a_given_target_that_a_run_misses_is_unknown_for_it() -> None:
    comparison = compare_views([view("a", RISING), view("b", [0.2] * 5)], target=Target(0.5))
    assert [row["time_to_target_s"] for row in comparison.rows] == [12.5, None]


def test_without_three_evaluations_there_is_no_target() -> None:
    comparison = compare_views([view("a", RISING), view("b", [0.5])])
    assert comparison.target is None
    assert explanations(comparison) == []
    assert table(comparison).row_count == 2


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=12),
    st.lists(st.floats(0, 1), min_size=3, max_size=12),
    st.floats(0.1, 10),
)
def test_time_ratio_is_rounds_ratio_times_latency_ratio(one: list[float], other: list[float], latency_s: float) -> None:
    runs = [view("one", one), view("other", other, latency_s=latency_s)]
    target, _ = common_target(runs)
    assert target is not None
    ways = [way_to(run, target) for run in runs]
    assert ways[0] is not None
    assert ways[1] is not None
    by_rounds = ways[1].rounds / ways[0].rounds
    by_seconds = ways[1].seconds_per_round / ways[0].seconds_per_round
    assert by_rounds * by_seconds == pytest.approx(ways[1].time_s / ways[0].time_s)


def test_the_reason_is_said_with_its_figures() -> None:
    text = why(ways(view("a", [0.1, *RISING])), ways(view("b", RISING, latency_s=10.0)), Target(0.5))
    assert text.startswith(
        "a reached 50.0 % personalised accuracy after 15.0 s of simulated time, b after 50.0 s: 3.3 times sooner. "
        "It needed 1.20 times more rounds (6 against 5) but each took 4.00 times less (2.5 s against 10.0 s): "
        "0.83 × 4.00 = 3.33."
    )
    assert "moved 400 kbit/s over the air against 100 kbit/s." in text


def test_the_reason_does_not_depend_on_the_order_of_the_runs() -> None:
    one, other = ways(view("a", RISING)), ways(view("b", RISING, latency_s=10.0))
    assert why(one, other, Target(0.5)) == why(other, one, Target(0.5))


def test_a_target_out_of_reach_is_said_to_be() -> None:
    text = why(ways(view("a", RISING)), ways(view("b", [0.2] * 4)), Target(0.5))
    assert text == (
        "50.0 % personalised accuracy was reached by a after 12.5 s and by b not at all within its 4 rounds (10.0 s)."
    )


def test_the_table_fits_the_terminal() -> None:
    single = [view("a", RISING), view("b", RISING, latency_s=3.0)]
    several = [seeded("joint", seed, [a + 0.01 * seed for a in RISING], latency_s=33.3 + seed) for seed in range(3)]
    for width, comparison in itertools.product((80, 100, 130), map(compare_views, (single, several))):
        file = io.StringIO()
        Console(file=file, width=width).print(table(comparison, width=width))
        assert "…" not in file.getvalue()
        assert "time to" in file.getvalue()


def test_equal_folder_names_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path / parent / "run", history(RISING)) for parent in ("x", "y")]
    assert [run.label for run in load_runs(folders)] == ["x/run", "y/run"]
    with pytest.raises(OutputError, match="named twice"):
        load_runs([folders[0], folders[0]])


def deployment(folder: Path) -> Path:
    run = folder_of(folder / "run", history(RISING))
    (run / "summary.json").write_text('{"deployed": true}')
    return run


def test_a_deployment_goes_by_its_own_folder(tmp_path: Path) -> None:
    one, other = deployment(tmp_path / "one"), deployment(tmp_path / "other")
    assert load_run(one).label == "one"
    assert [run.label for run in load_runs([one, other])] == ["one", "other"]
    simulated = folder_of(tmp_path / "x" / "one", history(RISING))
    assert [run.label for run in load_runs([one, simulated])] == [f"{tmp_path.name}/one", "x/one"]
    folder_of(tmp_path / "sim", history(RISING))
    within = deployment(tmp_path / "sim")
    assert [run.label for run in load_runs([tmp_path / "sim", within])] == ["sim", "run"]


def test_the_seconds_of_a_deployment_are_called_measured(tmp_path: Path) -> None:
    one, other = deployment(tmp_path / "one"), deployment(tmp_path / "other")
    simulated = folder_of(tmp_path / "sim", history(RISING, latency_s=4.0))

    def said(*folders: Path) -> str:
        file = io.StringIO()
        show(compare_runs(folders, target=Target(0.5)), Console(file=file))
        return file.getvalue()

    assert "simulated" not in said(one, other)
    assert "one reached 50.0 % personalised accuracy after 12.5 s of measured time, other after 12.5 s:" in said(
        one, other
    )
    assert "after 12.5 s of measured time, sim after 20.0 s of simulated time: 1.6 times" in said(one, simulated)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a folder of results"):
        load_run(tmp_path / "none")
    with pytest.raises(OutputError, match=r"rounds\.jsonl is missing"):
        load_run(tmp_path)
    (tmp_path / "rounds.jsonl").write_text("")
    with pytest.raises(OutputError, match="no rounds yet"):
        load_run(tmp_path)


def test_an_unfinished_run_can_be_looked_at(tmp_path: Path) -> None:
    run = load_run(folder_of(tmp_path / "run", history(RISING), planner=None))
    assert (run.system, run.planner, len(run.rows)) == (None, None, 9)


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_rows_or_a_table_and_draws(tmp_path: Path, as_json: bool) -> None:
    folders = [folder_of(tmp_path / name, history(RISING, latency_s=s)) for name, s in (("a", 1.0), ("b", 2.0))]
    file = io.StringIO()
    figure = tmp_path / "compare.png"
    compare_command_output(folders, target=Target(0.5), figures=[figure], as_json=as_json, console=Console(file=file))
    assert figure.stat().st_size > 10_000
    if as_json:
        rows = [json.loads(line) for line in file.getvalue().splitlines()]
        assert [row["time_to_target_s"] for row in rows] == [5.0, 10.0]
        assert [row["time_ratio"] and row["time_ratio"]["mean"] for row in rows] == [None, pytest.approx(2.0)]
    else:
        assert "2.0 times sooner" in file.getvalue()
        assert "figure: " in file.getvalue()


@pytest.mark.parametrize(
    ("backhaul", "inner_lr", "name"), [(True, 0.1, "HPFL"), (True, 0, "HFL"), (False, 0.1, "PFL"), (False, 0.0, "FL")]
)
def test_systems_are_named_by_tiers_and_adaptation(backhaul: bool, inner_lr: float, name: str) -> None:
    run = view("a", RISING)
    config = {"network": {"backhaul": backhaul}, "learning": {"inner_lr": inner_lr}, "planning": {"planner": "full"}}
    assert type(run)(label="a", rows=run.rows, config=config).system == name


def test_runs_that_never_arrive_come_last() -> None:
    comparison = compare_views(
        [view("never", [0.1] * 4), view("late", RISING, latency_s=9.0), view("soon", RISING)], target=Target(0.5)
    )
    sentences = explanations(comparison)
    assert sentences[0].startswith("soon reached")
    assert "never not at all" in sentences[1]
    assert not math.isnan(comparison.rows[1]["time_to_target_s"])


def said(*runs: RunView, target: float | None = 0.5) -> str:
    file = io.StringIO()
    show(compare_views(runs, target=None if target is None else Target(target)), Console(file=file))
    return file.getvalue()


def reaching(planner: str, latencies_s: dict[int, float]) -> list[RunView]:
    """Runs of these seeds that reach 50 % in round 5."""
    return [seeded(planner, seed, RISING, latency_s=latency_s) for seed, latency_s in latencies_s.items()]


def test_runs_that_differ_in_the_seed_alone_are_one_row_of_means_with_students_interval() -> None:
    comparison = compare_views(reaching("joint", {0: 2.0, 1: 2.4, 7: 2.8}), target=Target(0.5))
    (row,) = comparison.rows
    assert (row["label"], row["seeds"], row["num_reached"]) == ("joint", [0, 1, 7], 3)
    assert row["time_to_target_s"] == pytest.approx(12.0)
    half = 4.302653 * 2.0 / math.sqrt(3)  # Student's quantile for three seeds, times their standard error
    assert row["intervals"]["time_to_target_s"] == pytest.approx([12 - half, 12 + half])
    assert (row["rounds_to_target"], "rounds_to_target" in row["intervals"]) == (5, False)
    assert [run["time_to_target_s"] for run in row["runs"]] == pytest.approx([10.0, 12.0, 14.0])
    assert [run["seed"] for run in row["runs"]] == [0, 1, 7]
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_no_ratio_is_printed_between_two_seeds() -> None:
    runs = reaching("joint", {0: 1.0, 1: 10.0})
    assert explanations(compare_views(runs, target=Target(0.5))) == []
    assert "sooner" not in said(*runs)
    assert compare_views(runs, target=Target(0.5)).rows[0]["time_ratio"] is None


def test_what_decides_no_numbers_separates_no_groups(tmp_path: Path) -> None:
    def run(name: str, *changes: str) -> Path:
        changed = [f"training.seed={name[-1]}", *changes]
        folder = folder_of(tmp_path / name, history(RISING), planner=None)
        (folder / "config.toml").write_text(to_toml(load("quickstart-paper", overrides=changed)))
        return folder

    alike = [
        run("a0"),
        run("a1", "training.rounds=7", "evaluation.target_accuracy=0.3"),
        run("a2", "training.checkpoint_every=3", "network.write_trace=a2.csv"),
    ]
    other = [run("b0", "planning.max_edges=3"), run("c0", "evaluation.every=7")]
    comparison = compare_runs([*alike, *other])
    assert [(row["label"], row["seeds"]) for row in comparison.rows] == [("a", [0, 1, 2]), ("b0", [0]), ("c0", [0])]


def test_a_seed_that_is_there_twice_begins_another_group() -> None:
    before, after = reaching("joint", {0: 2.0, 1: 2.4}), reaching("joint", {0: 1.0, 1: 1.2})
    old, new = (
        [replace(run, label=f"{where}/{run.label}") for run in runs]
        for where, runs in (("old", before), ("new", after))
    )
    comparison = compare_views([*old, *new], target=Target(0.5))
    assert [row["label"] for row in comparison.rows] == ["old/joint", "new/joint"]
    assert explanations(comparison)[-1] == "old/joint and new/joint have the same configuration and seeds."
    found, two = comparison.rows[0]["time_ratio"], pytest.approx(2.0)
    assert found == {"to": "new/joint", "mean": two, "low": two, "high": two, "common_seeds": 2}


def test_runs_without_a_configuration_and_deployed_ones_are_not_taken_together_with_others() -> None:
    unknown = [view("a", RISING), view("b", RISING)]
    assert [group.label for group in grouped(unknown)] == ["a", "b"]
    assert "same configuration" not in said(*unknown)
    simulated, real = reaching("joint", {0: 1.0, 1: 1.0})
    assert len(grouped([simulated, real])) == 1
    assert len(grouped([simulated, replace(real, deployed=True)])) == 2


def test_seeds_of_a_deployment_are_one_group_of_measured_seconds_before_it_ends_too(tmp_path: Path) -> None:
    for seed in (0, 1):
        run = folder_of(tmp_path / f"pi-{seed}" / "run", history(RISING, latency_s=1.0 + seed), seed=seed)
        (run / "run-id").write_text("0")
    (group,) = compare_runs([tmp_path / "pi-0" / "run", tmp_path / "pi-1" / "run"]).groups
    assert (group.label, group.time_word, group.seeds_text) == ("pi", "measured time", "2 seeds")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (["fast-s0", "fast-s1"], "fast"),
        (["fast-seed0", "fast-seed1"], "fast"),
        (["0/fast", "1/fast"], "fast"),
        (["seed=0/fast", "seed=1/fast"], "fast"),
        (["hpfl0", "hpfl1"], "HPFL"),
        (["quickstart-paper", "quickstart-paper-2"], "quickstart-paper"),
        (["rho0-0-s0", "rho0-0-s1"], "rho0-0"),
        (["x", "y"], "x .. y"),
    ],
)
def test_a_group_goes_by_what_the_names_of_its_runs_have_in_common(labels: list[str], name: str) -> None:
    runs = [replace(seeded("joint", seed, RISING), label=label) for seed, label in enumerate(labels)]
    assert [group.label for group in grouped(runs)] == [name]


def test_groups_of_one_name_are_told_apart() -> None:
    runs = [seeded(planner, seed, RISING) for seed in (0, 1) for planner in ("joint", "paper")]
    assert [group.label for group in grouped(runs)] == ["joint", "paper"]
    runs = [replace(run, label=f"{number}/run") for number, run in enumerate(runs, start=5)]
    assert [group.label for group in grouped(runs)] == ["5/run .. 7/run", "6/run .. 8/run"]


def test_where_some_seeds_do_not_arrive_it_is_said_how_many_do_and_nothing_is_averaged() -> None:
    runs = [
        *reaching("joint", {0: 1.0, 1: 1.0}),
        seeded("joint", 2, [0.2] * 9),
        seeded("paper", 0, RISING, latency_s=2.0),
    ]
    comparison = compare_views(runs, target=Target(0.5))
    row = comparison.rows[0]
    assert (row["num_reached"], row["time_to_target_s"], row["time_ratio"]) == (2, None, None)
    text = said(*runs)
    assert "2 of 3" in text
    assert "arrive" in text
    assert "was reached by paper-s0 after 10.0 s and by joint in 2 of 3 seeds." in text


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=6))
def test_a_ratio_is_the_geometric_mean_over_the_seeds_both_have(pairs: list[tuple[float, float]]) -> None:
    one = ways(*reaching("joint", {seed: a for seed, (a, _) in enumerate(pairs)}), *reaching("joint", {98: 3.0}))
    other = ways(*reaching("paper", {seed: b for seed, (_, b) in enumerate(pairs)}), *reaching("paper", {99: 4.0}))
    found, turned = ratio(one, other), ratio(other, one)
    assert found is not None
    assert turned is not None
    assert found.time.mean == pytest.approx(math.exp(sum(math.log(b / a) for a, b in pairs) / len(pairs)))
    assert found.time.mean * turned.time.mean == pytest.approx(1)
    assert found.rounds * found.seconds_per_round == pytest.approx(found.time.mean)
    assert found.time.count == len(pairs)
    assert (found.time.low is None) == (len(pairs) == 1)
    assert why(one, other, Target(0.5)) == why(other, one, Target(0.5)) or found.time.mean == pytest.approx(1)


def test_ratios_over_common_seeds_are_said_with_their_interval() -> None:
    text = said(*reaching("joint", {0: 1.0, 1: 1.1, 2: 0.9}), *reaching("paper", {0: 2.0, 1: 2.1, 2: 1.9}))
    assert "joint reached 50.0 % personalised accuracy after 5.0 s ± 1.2 s (3 seeds) of simulated time, paper" in text
    assert ": 2.0 (1.8 .. 2.3) times sooner, over 3 common seeds. It needed as many rounds (5 against 5)" in text


def test_seeds_that_tell_nothing_are_said_to() -> None:
    text = said(*reaching("joint", {0: 1.0, 1: 2.0}), *reaching("paper", {0: 2.0, 1: 1.1}))
    assert "times, so that 2 common seeds do not tell which is sooner." in text


def test_one_seed_is_called_one_and_its_ratio_has_no_interval() -> None:
    text = said(*reaching("joint", {0: 1.0, 1: 1.1}), seeded("paper", 0, RISING, latency_s=2.0))
    assert "paper-s0 after 10.0 s (1 seed): 2.0 times sooner, over 1 common seed." in text


def test_one_seed_is_never_set_against_another_and_it_is_said() -> None:
    text = said(*reaching("joint", {0: 1.0, 1: 1.2}), *reaching("paper", {2: 2.0, 3: 2.4}))
    assert "was reached by joint after 5.5 s ± 6.4 s (2 seeds) and by paper after 11.0 s" in text
    assert "no seed in common, and one seed is never set against another: no ratio is formed." in text
    assert "sooner" not in text
    alone = said(seeded("joint", 0, RISING), seeded("paper", 1, RISING, latency_s=9.0))
    assert "no seed in common" in alone
    assert "sooner" not in alone
    assert "no seed in common" not in said(seeded("joint", 1, RISING), seeded("paper", 1, RISING, latency_s=9.0))


def test_with_many_groups_only_how_much_sooner_is_said() -> None:
    runs = [view(f"run {n}", RISING, latency_s=1.0 + n) for n in range(6)]
    told = [explanations(compare_views(those, target=Target(0.5)))[:-1] for those in (runs, runs[:5])]
    assert [["It needed" in line for line in lines] for lines in told] == [[False] * 5, [True] * 4]


def test_rounds_that_take_no_time_give_no_ratio() -> None:
    text = said(seeded("joint", 0, RISING, latency_s=0.0), seeded("paper", 0, RISING))
    assert "was reached by joint-s0 after 0.0 s and by paper-s0 after 12.5 s." in text


TWO, OTHER = [(0, 1), (1, 2), (0, 3)], [(0, 1), (1, 2), (2, 3)]


def test_who_chose_the_same_edges_in_every_round_is_said() -> None:
    def run(planner: str, seed: int, scheduled: list[tuple[int, ...]], rounds: int = 3) -> RunView:
        return seeded(planner, seed, RISING[:rounds], scheduled=scheduled)

    one, same = run("joint", 0, TWO), run("paper", 0, [edges[::-1] for edges in TWO])
    assert same_edges(grouped([one, same])) == ["joint-s0 and paper-s0 chose the same edges in all 3 rounds."]
    assert same_edges(grouped([one, run("paper", 0, OTHER)])) == []
    assert same_edges(grouped([one, run("paper", 1, TWO)])) == []
    several = grouped([one, run("joint", 1, OTHER), same, run("paper", 1, OTHER), run("shpfl", 0, TWO)])
    assert same_edges(several) == [
        "joint, paper and shpfl-s0 chose the same edges in all 3 rounds that they have in common."
    ]
    assert same_edges(several[:2]) == ["joint and paper chose the same edges in all 6 rounds, 2 seeds together."]
    shorter = grouped([one, run("paper", 0, TWO[:2], 2)])
    assert same_edges(shorter) == [
        "joint-s0 and paper-s0 chose the same edges in all 2 rounds that they have in common."
    ]


def test_nearly_the_same_edges_are_said_to_be_so_and_calling_all_is_no_choice() -> None:
    def run(planner: str, scheduled: list[tuple[int, ...]]) -> RunView:
        rows = [record(number, scheduled=edges).to_json() for number, edges in enumerate(scheduled, start=1)]
        return replace(seeded(planner, 0, []), rows=rows)

    nearly = grouped([run("joint", [(0, 1)] * 20), run("paper", [(0, 1)] * 18 + [(1, 2)] * 2)])
    assert same_edges(nearly) == ["joint-s0 and paper-s0 chose the same edges in 18 of 20 rounds."]
    assert same_edges(grouped([run("full", [(0, 1, 2, 3)] * 20), run("joint", [(0, 1, 2, 3)] * 20)])) == []


def falling(label: str, losses: list[float], *, latency_s: float = 2.5) -> RunView:
    """A regression: no accuracy, only losses."""
    rows = [
        record(
            number,
            time_s=latency_s * number,
            latency_s=latency_s,
            meta_loss=loss,
            loss=2 * loss,
            personalised_accuracy=float("nan"),
            personalised_test_loss=loss,
            test_loss=2 * loss,
        ).to_json()
        for number, loss in enumerate(losses, start=1)
    ]
    return RunView(label=label, rows=rows)


def test_runs_without_an_accuracy_are_timed_to_a_test_loss(tmp_path: Path) -> None:
    losses = [0.9, 0.5, 0.3, 0.2, 0.123456, 0.1]
    comparison = compare_views([falling("quick", losses), falling("slow", losses, latency_s=5.0)])
    assert (comparison.target, comparison.target_origin) == (Target(0.2, LOSS), "lowest that all reach")
    assert [row["time_to_target_s"] for row in comparison.rows] == [10.0, 20.0]
    assert [row["target_loss"] for row in comparison.rows] == [0.2, 0.2]
    assert explanations(comparison)[0].startswith("quick reached a personalised test loss of 0.2 after 10.0 s")
    file = io.StringIO()
    show(comparison, Console(file=file))
    assert "personalised test loss of 0.2 (lowest that all reach)" in file.getvalue()
    assert "0.1 (0.1)" in file.getvalue()
    assert compare_figure(comparison.groups, comparison.ways, tmp_path / "loss.png", target=comparison.target).exists()
    given = compare_views([falling("quick", losses), falling("slow", losses)], target=Target(0.5, LOSS))
    assert [row["rounds_to_target"] for row in given.rows] == [2, 2]


@pytest.mark.parametrize(
    ("learning", "label"),
    [({}, "HPFL"), ({"inner_lr": 0.0}, "HFL"), ({"method": "fedavg"}, "HFL"), ({"method": "not-here"}, "HPFL")],
)
def test_a_run_is_called_after_what_its_ues_learn(learning, label):
    found = RunView(label="mine", rows=[], config={"learning": {"inner_lr": 0.03, **learning}})
    assert found.system == label


def test_ues_that_are_worse_off_than_alone_are_counted_seed_by_seed() -> None:
    def run(label: str, method: str, accuracies: list[float], samples: list[float]) -> RunView:
        config = {"learning": {"method": method}, "training": {"seed": 3}}
        ues = {"personalised_accuracy": accuracies, "samples": samples}
        return replace(view(label, RISING), config=config, ues=ues)

    alone = run("alone", "local", [0.5, 0.6, 0.7, math.nan], [9, 9, 9, 9])
    shared = run("shared", "fedavg", [0.4, 0.6, 0.8, 0.9], [9, 9, 9, 9])
    others = run("others", "ditto", [0.4, 0.6, 0.8, 0.9], [9, 9, 9, 8])
    groups = [Group(label=one.label, runs=(one,)) for one in (alone, shared, others)]
    assert worse_off(groups) == ["shared: 33 % of the UEs are worse off than with method local."]
    told = {row["label"]: row for row in rows(groups, None, None)}
    assert [told[one.label]["worse_off_than_local"] for one in groups] == [None, pytest.approx(1 / 3), None]
    assert told["shared"]["final_personalised_accuracy_worst_tenth"] == 0.4
    assert told["shared"]["final_personalised_accuracy_std"] == pytest.approx(np.std([0.4, 0.6, 0.8, 0.9]))
    assert not worse_off(groups[1:])


def test_newcomers_are_no_part_of_the_spread_over_ues() -> None:
    ues = {"personalised_accuracy": ["0.2", "0.6", "0.8", ""], "held_out": ["True", "False", "False", "False"]}
    fate = fate_of_ues(replace(view("mine", RISING), ues=ues), None)
    assert fate["final_personalised_accuracy_worst_tenth"] == 0.6
    assert fate["worse_off_than_local"] is None
