"""Figures by their geometry: where names stand, what overlaps, what is counted, how wide a column is, which fonts."""

import re
import zlib
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from reporting_runs import folder_of, history, record, seeded, view

from hpfl.reporting import style
from hpfl.reporting.compare import compare_views
from hpfl.reporting.compare_figure import compare_figure
from hpfl.reporting.figures import PICTURES, draw_run, figure_of
from hpfl.reporting.looks import DASHES, LOOKS, MARKERS, PRINTED
from hpfl.reporting.runs import RunView
from hpfl.reporting.shown_result import open_run
from hpfl.reporting.table import csv_text

RISING = [0.1 * n for n in range(1, 10)]


def a_run() -> RunView:
    """Rounds of uneven length, always of 15 edges, and what 40 UEs got."""
    rows = [line.to_json() for line in history([0.5, 0.7, 0.9, 0.93, 0.94, 0.94])]
    for row, latency_s in zip(rows, (2.4, 2.5, 2.6, 2.4, 2.5, 4.0), strict=True):
        row |= {"latency_s": latency_s, "num_scheduled": 15}
    accuracy = [str(value) for value in np.linspace(0.5, 1, 40)]
    ues = {"personalised_accuracy": accuracy, "global_accuracy": [str(float(value) / 2) for value in accuracy]}
    return RunView(label="a", rows=rows, ues=ues, config={"evaluation": {"target_accuracy": 0.9}})


def written(figure) -> list[tuple[str, object]]:
    """Everything that is written, with the box it takes; matplotlib keeps marks beyond an axis' ends, undrawn."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    figure.draw_without_rendering()
    renderer, undrawn = figure.canvas.get_renderer(), set()
    for axis in figure.findobj(Axis):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        beyond = [tick for tick in axis.get_major_ticks() if not low - slack <= tick.get_loc() <= high + slack]
        undrawn |= {id(label) for tick in beyond for label in (tick.label1, tick.label2)}
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    there = [text for text in shown if id(text) not in undrawn]
    return [(text.get_text(), text.get_window_extent(renderer).padded(-1.0)) for text in there]


def overlaps(figure) -> list[tuple[str, str]]:
    return [(a, b) for (a, one), (b, other) in combinations(written(figure), 2) if one.overlaps(other)]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PICTURES)
def test_no_text_lies_on_another_and_none_leaves_the_page(name: str, look: str) -> None:
    with style.drawn_as(look):
        figure = figure_of(a_run(), name)
    assert overlaps(figure) == []
    page = figure.bbox.padded(2.0)
    assert [text for text, box in written(figure) if not (page.x0 <= box.x0 and box.x1 <= page.x1)] == []


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Draws a comparison and gives the figure itself."""
    kept = []
    monkeypatch.setattr(style, "save", lambda figure, path: kept.append(figure) or figure.draw_without_rendering())

    def drawn(runs: list[RunView], look: str = "screen"):
        comparison = compare_views(runs)
        with style.drawn_as(look):
            compare_figure(comparison.groups, comparison.ways, tmp_path / "x.png", target=comparison.target)
        return kept[-1]

    return drawn


@pytest.mark.parametrize("look", LOOKS)
def test_thirty_runs_are_five_names_none_on_another(compared, look: str) -> None:
    runs = [
        seeded(f"planner-{p}", seed, [a * (1 - 0.01 * i) + 0.005 * seed for a in RISING], latency_s=1.0 + 0.4 * i)
        for i, p in enumerate("abcde")
        for seed in range(6)
    ]
    assert overlaps(compared(runs, look)) == []


def test_a_name_stands_where_its_line_is_last_seen_and_says_what_it_is_there(compared) -> None:
    late = [*RISING[:5], *np.linspace(0.5, 0.96, 60)]  # goes on long after everybody has arrived, and is cut
    figure = compared([seeded("a", 0, late, latency_s=1.0), seeded("b", 0, RISING, latency_s=2.0)])
    axes = next(iter(figure.subfigs[0].axes))
    right = axes.get_xlim()[1]
    names = {note.get_text(): note for note in axes.texts if note.get_gid() == "line-name"}
    assert len(names) == 2
    for line, (text, note) in zip(axes.lines[:2], names.items(), strict=True):
        x, y = line.get_data()
        seen = np.interp(min(right, x[-1]), x, y)
        assert text.endswith(f"{100 * seen:.1f} %")
        place = axes.transAxes.transform((0, note.xy[1]))[1]
        assert place == pytest.approx(axes.transData.transform((0, seen))[1], abs=1.0)


def test_a_name_that_is_pushed_away_has_a_leader_from_its_lines_end(compared) -> None:
    figure = compared([seeded(p, 0, [*RISING[:-1], 0.9 + 0.001 * i]) for i, p in enumerate("abc")])
    axes = next(iter(figure.subfigs[0].axes))
    leaders = {note.xy for note in axes.texts if note.arrow_patch is not None and not note.get_text()}
    ends = {(line.get_xdata()[-1], line.get_ydata()[-1]) for line in axes.lines[:3]}
    assert len(leaders & ends) == 2


def test_what_is_counted_is_marked_at_whole_numbers(compared) -> None:
    course, spread, against = figure_of(a_run(), "latency").axes
    few = [seeded(p, 0, RISING, scheduled=[(0,)] * 9) for p in "ab"]
    bottom = compared(few).subfigs[2].axes[1]
    for axes in (course, spread, against, bottom):
        low, high = axes.get_xlim()
        shown = [mark for mark in axes.get_xticks() if low <= mark <= high]
        assert shown
        assert all(mark == round(mark) for mark in shown)


def test_no_line_strikes_through_a_text_of_the_latency_picture() -> None:
    figure = figure_of(a_run(), "latency")
    spread = figure.axes[1]
    heights = [spread.transData.transform((0, line.get_ydata()[0]))[1] for line in spread.lines]
    boxes = [text.get_window_extent() for text in spread.get_legend().get_texts()]
    assert len(heights) == len(boxes) == 2
    assert not [1 for box in boxes for height in heights if box.y0 < height < box.y1]


@pytest.mark.parametrize(("look", "width_in"), [("ieee", 3.5), ("ieee-wide", 7.16)])
def test_a_paper_has_its_columns_width_eight_points_and_no_headline(look: str, width_in: float) -> None:
    run = a_run()
    for name in PICTURES:
        with style.drawn_as(look):
            figure = figure_of(run, name)
        assert figure.get_figwidth() == width_in
        assert not figure.texts
        from matplotlib.text import Text

        sizes = {text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()}
        assert sizes == {8.0}


def embedded(content: bytes) -> bytes:
    """A PDF's objects with its streams unpacked."""
    parts = re.findall(rb"stream\r?\n(.*?)endstream", content, flags=re.DOTALL)
    unpacked = []
    for part in parts:
        try:
            unpacked.append(zlib.decompress(part))
        except zlib.error:
            continue
    return content + b"".join(unpacked)


def test_a_pdf_has_its_fonts_embedded_as_type_42_also_when_it_is_saved_later(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", history(RISING))
    figure = open_run(folder).plot("progress", style="ieee")
    figure.savefig(tmp_path / "later.pdf")
    with style.drawn_as("ieee", ["pdf"]):
        first = draw_run(folder)[0]
    for path in (tmp_path / "later.pdf", first):
        content = embedded(path.read_bytes())
        assert b"/Type3" not in content
        assert b"/FontFile2" in content
        assert b"STIXGeneral" in content
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", first.read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(3.5 * 72)


def test_in_print_lines_are_told_apart_without_colour() -> None:
    with style.drawn_as("ieee"):
        looks = [style.series(index) for index in range(6)]
    assert len({str(look["linestyle"]) for look in looks}) == len({look["marker"] for look in looks}) == 6
    greys = [sum(w * int(shade[i : i + 2], 16) for w, i in ((0.299, 1), (0.587, 3), (0.114, 5))) for shade in PRINTED]
    assert all(later - earlier > 25 for earlier, later in pairwise(greys))
    assert len(DASHES) == len(MARKERS) == len(PRINTED)


def test_the_kinds_asked_for_are_written_and_no_others(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", [record(1)])
    with style.drawn_as("screen", ["pdf", "svg", "pdf"]):
        assert {path.suffix for path in draw_run(folder)} == {".pdf", ".svg"}
    assert not list(folder.rglob("*.png"))


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ValueError, match="no style of figures is called 'nature'; there are screen, ieee, ieee-wide"):
        open_run_of_nothing().plot(style="nature")


def open_run_of_nothing():
    from hpfl.reporting.frames import RoundRecords
    from hpfl.reporting.shown_result import ShownResult

    return ShownResult(rounds=RoundRecords(view("a", RISING).rows), how="completed")


def test_a_runs_own_table_of_ues_is_drawn_for_a_paper(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", history(RISING, every=2))
    accuracy = np.linspace(0.5, 1, 40)
    (folder / "ues.csv").write_text(csv_text({"personalised_accuracy": accuracy, "global_accuracy": accuracy / 2}))
    with style.drawn_as("ieee"):
        assert [path.name for path in draw_run(folder)] == [f"{name}.png" for name in PICTURES]
