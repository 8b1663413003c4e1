import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reporting_runs import folder_of, history, view
from rich.console import Console

from hpfl.reporting.compare import compare_command_output, compare_runs, compare_views, explanations, show, table
from hpfl.reporting.runs import load_run, load_runs
from hpfl.reporting.store import OutputError
from hpfl.reporting.why import common_target, way_to, why

RISING = [0.1 * n for n in range(1, 10)]


def test_every_run_has_one_row_of_plain_json(tmp_path: Path) -> None:
    fast = folder_of(tmp_path / "fast", history(RISING, latency_s=1.0), planner="joint")
    slow = folder_of(tmp_path / "slow", history(RISING[:5], latency_s=4.0), planner="shpfl")
    comparison = compare_runs([fast, slow])
    assert [row["label"] for row in comparison.rows] == ["fast", "slow"]
    assert [row["system"] for row in comparison.rows] == ["HPFL", "SHPFL"]
    assert [row["planner"] for row in comparison.rows] == ["joint", "shpfl"]
    assert [row["rounds"] for row in comparison.rows] == [9, 5]
    assert (comparison.target, comparison.target_origin) == (0.3, "highest that all reach")
    assert [row["time_to_target_s"] for row in comparison.rows] == [3.0, 12.0]
    assert json.loads(json.dumps(comparison.rows, allow_nan=False)) == list(comparison.rows)


def test_the_configured_target_is_used_where_all_reach_it() -> None:
    runs = [view("a", RISING, target=0.5), view("b", RISING, target=0.5)]
    assert common_target(runs) == (0.5, "as configured")
    assert common_target([*runs, view("c", [0.4] * 3, target=0.5)]) == (0.4, "highest that all reach")
    assert common_target([*runs, view("c", RISING, target=0.6)])[1] == "highest that all reach"


def test_a_given_target_that_a_run_misses_is_unknown_for_it() -> None:
    comparison = compare_views([view("a", RISING), view("b", [0.2] * 5)], target=0.5)
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
    text = why(view("a", [0.1, *RISING]), view("b", RISING, latency_s=10.0), 0.5)
    assert text.startswith(
        "a reached 50.0 % personalised accuracy after 15.0 s of simulated time, b after 50.0 s: 3.3 times sooner. "
        "It needed 1.20 times more rounds (6 against 5) but each took 4.00 times less (2.5 s against 10.0 s): "
        "0.83 × 4.00 = 3.33."
    )
    assert "moved 400 kbit/s over the air against 100 kbit/s." in text


def test_the_reason_does_not_depend_on_the_order_of_the_runs() -> None:
    one, other = view("a", RISING), view("b", RISING, latency_s=10.0)
    assert why(one, other, 0.5) == why(other, one, 0.5)


def test_a_target_out_of_reach_is_said_to_be() -> None:
    text = why(view("a", RISING), view("b", [0.2] * 4), 0.5)
    assert text == (
        "50.0 % personalised accuracy was reached by a after 12.5 s and by b not at all within its 4 rounds (10.0 s)."
    )


def test_the_table_fits_the_terminal() -> None:
    comparison = compare_views([view("a", RISING), view("b", RISING, latency_s=3.0)])
    for width in (80, 100, 130):
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
        show(compare_runs(folders, target=0.5), Console(file=file))
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
    compare_command_output(folders, target=0.5, figure=figure, as_json=as_json, console=Console(file=file))
    assert figure.stat().st_size > 10_000
    if as_json:
        rows = [json.loads(line) for line in file.getvalue().splitlines()]
        assert [row["time_to_target_s"] for row in rows] == [5.0, 10.0]
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
        [view("never", [0.1] * 4), view("late", RISING, latency_s=9.0), view("soon", RISING)], target=0.5
    )
    sentences = explanations(comparison)
    assert sentences[0].startswith("soon reached")
    assert "never not at all" in sentences[1]
    assert not math.isnan(comparison.rows[1]["time_to_target_s"])
