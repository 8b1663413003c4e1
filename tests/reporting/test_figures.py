import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reporting_runs import evaluated, folder_of, history, record, seeded, view

from hpfl.reporting.compare import compare_views
from hpfl.reporting.compare_figure import compare_figure, course
from hpfl.reporting.figures import draw_run, running_median, waiting_rounds
from hpfl.reporting.groups import Group
from hpfl.reporting.line_names import spread
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.runs import RunView
from hpfl.reporting.store import OutputError
from hpfl.reporting.style import FiguresUnavailableError, drawing, save, time_unit
from hpfl.reporting.table import csv_text

RISING = [0.1 * n for n in range(1, 10)]


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(content) < 250_000
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def compared(runs: list[RunView], path: Path) -> Path:
    comparison = compare_views(runs)
    return compare_figure(comparison.groups, comparison.ways, path, target=comparison.target)


def both(folder: Path) -> list[Path]:
    with drawn_as(kinds=("png", "svg")):
        return draw_run(folder)


def test_a_run_is_drawn_in_four_pictures(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", history(RISING, every=3))
    accuracy = np.linspace(0.5, 1, 40)
    (folder / "ues.csv").write_text(csv_text({"personalised_accuracy": accuracy, "global_accuracy": accuracy / 2}))
    paths = draw_run(folder)
    assert [path.name for path in paths] == ["progress.png", "schedule.png", "latency.png", "ues.png"]
    assert [png_size(path) for path in paths] == [(1080, 840), (1080, 810), (1080, 465), (1080, 525)]


def test_the_same_records_give_the_same_picture(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", history(RISING))
    first = {path.name: path.read_bytes() for path in both(folder)}
    again = {path.name: path.read_bytes() for path in both(folder)}
    assert first == again
    assert b"<svg" in first["progress.svg"]


@pytest.mark.parametrize(
    "records",
    [
        [record(1)],
        [evaluated(1, 0.5)],
        [evaluated(1, 0.5, personalised_accuracy=None, global_accuracy=None, personalised_accuracy_p10=None)],
        [record(1, latency_s=0.0, time_s=0.0, scheduled=(), num_scheduled=0)],
    ],
)
def test_odd_and_short_runs_can_be_drawn(tmp_path: Path, records: list) -> None:
    assert len(draw_run(folder_of(tmp_path / "run", records))) == 3
    runs = [RunView(label=name, rows=[line.to_json() for line in records]) for name in "ab"]
    png_size(compared(runs, tmp_path / "compare.png"))


@pytest.mark.parametrize("count", [1, 2, 8])
def test_any_number_of_runs_can_be_compared(tmp_path: Path, count: int) -> None:
    runs = [view(f"run {n}", RISING, latency_s=1.0 + n) for n in range(count)]
    width, height = png_size(compared(runs, tmp_path / "compare.png"))
    assert width == 1140
    assert height > 800


def test_seeds_are_drawn_as_their_mean_and_their_range_while_all_of_them_ran() -> None:
    early = RunView(label="a", rows=[evaluated(n, 0.1 * n, time_s=1.0 * n).to_json() for n in (1, 2, 3, 4)])
    late = RunView(label="b", rows=[evaluated(n, 0.1 * n, time_s=2.0 * n).to_json() for n in (1, 2)])
    drawn = course(Group(label="both", runs=(replace(early, config=_seed(0)), replace(late, config=_seed(1)))))
    np.testing.assert_allclose(drawn.time_s, [2, 3, 4])
    np.testing.assert_allclose(drawn.low, [0.1, 0.15, 0.2])
    np.testing.assert_allclose(drawn.high, [0.2, 0.3, 0.4])
    np.testing.assert_allclose(drawn.level, [0.15, 0.225, 0.3])
    assert drawn.shown_end(9.0) == pytest.approx((4.0, 0.3))
    assert drawn.shown_end(2.5) == pytest.approx((2.5, 0.1875))
    assert drawn.shown_end(1.0) is None


def _seed(number: int) -> dict[str, dict[str, int]]:
    return {"training": {"seed": number}}


def test_thirty_runs_of_ten_configurations_are_ten_lines_with_bands(tmp_path: Path) -> None:
    runs = [seeded(planner, seed, [a + 0.01 * seed for a in RISING]) for planner in "abcdefghij" for seed in range(3)]
    comparison = compare_views(runs)
    assert [group.seeds_text for group in comparison.groups] == ["3 seeds"] * 10
    path = compare_figure(comparison.groups, comparison.ways, tmp_path / "x.svg", target=comparison.target)
    drawing = path.read_text()
    assert drawing.count('id="FillBetweenPolyCollection') == 10
    assert "band and bar: from the lowest to the highest seed" in drawing


@pytest.mark.parametrize(("seed", "told"), [(0, True), (1, False)])
def test_the_picture_calls_nobody_sooner_on_another_seed(tmp_path: Path, seed: int, told: bool) -> None:
    path = compared([seeded("a", 0, RISING), seeded("b", seed, RISING, latency_s=5.0)], tmp_path / "x.svg")
    assert (">2.0× sooner</text>" in path.read_text()) == told
    assert ("sooner" in path.read_text()) == told


def test_waits_count_rounds_since_the_last_call() -> None:
    calls = [(0,), (0, 1), (1,), (0,)]
    run = RunView(label="a", rows=[record(n + 1, scheduled=edges).to_json() for n, edges in enumerate(calls)])
    nan = np.nan
    np.testing.assert_array_equal(waiting_rounds(run), [[0, 0, nan, 1], [nan, 1, 0, nan]])


def test_labels_are_pushed_apart_in_order_and_stay_below_the_top() -> None:
    places = spread([0.9, 0.95, 0.2, 0.94], 0.1, 0.92)
    assert places == pytest.approx([0.72, 0.92, 0.2, 0.82])
    crowded = spread([0.1, 0.11, 0.12], 0.1, 1.0, 0.0)
    assert crowded == pytest.approx([0.0, 0.1, 0.2])


def test_a_running_median_ignores_outliers() -> None:
    values = np.ones(50)
    values[20] = 1000
    assert (running_median(values) == 1).all()


def test_times_are_shown_in_the_unit_one_would_use() -> None:
    assert [time_unit(seconds)[1] for seconds in (100, 1000, 20_000, 400_000)] == ["s", "min", "h", "d"]


def test_without_matplotlib_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FiguresUnavailableError, match=r"pip install 'hpfl\[figures\]'"), drawing(1, 1):
        pass


def test_pyplot_is_never_touched(tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    compared([view("a", RISING)], tmp_path / "a.png")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    with drawing(1, 1) as figure, pytest.raises(OutputError, match=r"ends in '\.gif'; wanted \.png, \.svg or \.pdf"):
        save(figure, tmp_path / "figure.gif")


def test_a_figure_makes_its_folder_and_where_it_cannot_lie_is_said_in_a_sentence(tmp_path: Path) -> None:
    with drawing(1, 1) as figure:
        assert save(figure, tmp_path / "new" / "and" / "x.png").exists()
        with pytest.raises(OutputError, match=r"x\.png/y\.png cannot be written to \("):
            save(figure, tmp_path / "new" / "and" / "x.png" / "y.png")


@pytest.mark.parametrize(("kind", "start"), [("pdf", b"%PDF"), ("SVG", b"<?xml"), ("Png", b"\x89PNG")])
def test_a_figure_is_of_the_kind_its_suffix_says_and_repeats_its_bytes(tmp_path: Path, kind: str, start: bytes) -> None:
    for name in "ab":
        with drawing(1, 1) as figure:
            figure.text(0, 0, "x")
            save(figure, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert (tmp_path / f"a.{kind}").read_bytes().startswith(start)


def test_the_time_of_a_deployed_run_is_not_called_simulated() -> None:
    assert RunView(label="here", rows=[], deployed=True).time_word == "measured time"
    assert RunView(label="there", rows=[]).time_word == "simulated time"
