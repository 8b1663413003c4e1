"""Four pictures of one run: how it learned, whom it called, how long rounds took, and what each UE got."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.folder import FIGURES
from hpfl.reporting.line_names import LineEnd, clear_place, name_lines
from hpfl.reporting.runs import RunView, load_run
from hpfl.reporting.store import OutputError
from hpfl.reporting.targets import ACCURACY, LOSS
from hpfl.reporting.ue_panels import draw_gain, draw_ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Shown = list[tuple[str, str, str, Any]]
"""Figures of rounds by column, with name, colour and dashes of their lines."""


def draw_run(folder: Path) -> list[Path]:
    """Draw every figure the results in `folder` have the data for, into `folder/figures`; gives their paths."""
    view = load_run(folder)
    has_ues = np.isfinite(view.ue_column("personalised_accuracy")).any()
    names = [name for name in PICTURES if name != "ues" or has_ues]
    return [path for name in names for path in _saved(view, name, Path(folder) / FIGURES / name)]


def draw_at_the_end(folder: Path, note: Callable[[str], None]) -> None:
    """What every run does when it ends, simulated or real: draw its figures, or say what is missing for that."""
    try:
        draw_run(folder)
    except style.FiguresUnavailableError as error:
        note(str(error))


def figure_of(view: RunView, name: str) -> "Figure":
    """One of the pictures as a figure to look at or to change; nothing is written."""
    with _drawn(view, name) as figure:
        figure.draw_without_rendering()  # marks on axes are made now, while our looks are in force
    figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]  # a notebook may not know matplotlib yet
    return figure


def _png(figure: "Figure") -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=style.SCREEN_DPI)
    return content.getvalue()


def _saved(view: RunView, name: str, stem: Path) -> list[Path]:
    with _drawn(view, name) as figure:
        return style.save_all(figure, stem, "png")


@contextmanager
def _drawn(view: RunView, name: str) -> Iterator["Figure"]:
    if name not in PICTURES:
        raise ValueError(f"no picture of a run is called {name!r}; there are {', '.join(PICTURES)}")
    if not view.rows:
        raise OutputError(f"{view.label} has no rounds yet to draw")
    (width_in, height_in, narrow_in), draw = PICTURES[name]
    with style.drawing(width_in, height_in, narrow_in=narrow_in) as figure:
        draw(figure, view)
        yield figure


def _progress(figure: "Figure", view: RunView) -> None:
    """Accuracies and losses against simulated time, rounds on the second axis."""
    accuracy, loss = figure.subplots(2, 1, sharex=True, height_ratios=(1.25, 1))
    unit_s, unit = style.time_unit(float(view.column("time_s")[-1]))
    loss.set_xlim(0, view.column("time_s")[-1] / unit_s or 1.0)
    _accuracy_panel(accuracy, view, unit_s)
    _loss_panel(loss, view, unit_s)
    loss.set_xlabel(f"{view.time_word} ({unit})")
    figure.align_ylabels([accuracy, loss])
    if not style.asked().look.narrow:
        style.rounds_on_top(accuracy, view.column("time_s"), unit_s)
    _title(figure, view, "How the model learned")


def _schedule(figure: "Figure", view: RunView) -> None:
    """Who was called in which round and after how long a wait; latency above, how often each edge was called beside."""
    grid = figure.subplots(2, 2, sharex="col", sharey="row", width_ratios=(6, 1), height_ratios=(1, 3))
    latency, (heat, calls) = grid[0, 0], grid[1]
    grid[0, 1].axis("off")
    latency.stairs(
        view.column("latency_s"), np.arange(len(view.rows) + 1) + 0.5, fill=True, color=style.SLATE, linewidth=0
    )
    latency.set_ylabel("round\nlatency (s)")
    latency.set_ylim(bottom=0)
    waits = waiting_rounds(view)
    _heat_map(figure, heat, waits)
    _call_bars(calls, waits)
    _title(figure, view, "Which edges were scheduled, and how long they had waited")


def _latency(figure: "Figure", view: RunView) -> None:
    """How long rounds took: round by round, as a distribution, and against the number of edges called."""
    narrow = style.asked().look.narrow
    shape: dict[str, Any] = {"nrows": 3} if narrow else {"ncols": 3, "width_ratios": (1.5, 1, 1)}
    course, spread, against = figure.subplots(sharey=True, **shape)
    for axes in (spread, against) if narrow else ():
        axes.set_ylabel("round latency (s)")
    latency = view.column("latency_s")
    course.plot(np.arange(1, len(latency) + 1), latency, ".", color=style.SKY, markersize=3, alpha=0.7)
    course.plot(np.arange(1, len(latency) + 1), running_median(latency), color=style.BLUE)
    course.set(xlabel="round", ylabel="round latency (s)", title="Round by round")
    course.text(0.98, 0.03, "line: running median", ha="right", color=style.MUTED, transform=course.transAxes)
    course.set_ylim(bottom=0, top=float(latency.max()) * 1.15 or 1)
    style.whole_marks(course.xaxis)
    _latency_histogram(spread, latency)
    edges = view.column("num_scheduled")
    against.plot(edges, latency, "o", color=style.BLUE, markersize=3.5, alpha=0.35, markeredgewidth=0)
    against.set(xlabel="edges scheduled", title="By edges scheduled")
    against.set_xlim(edges.min() - 0.8, edges.max() + 0.8)
    style.whole_marks(against.xaxis)
    _title(figure, view, "How long rounds took")


def _ues(figure: "Figure", view: RunView) -> None:
    """Final accuracy over UEs, and what personalisation was worth to each of them."""
    shape: dict[str, Any] = {"nrows": 2} if style.asked().look.narrow else {"ncols": 2, "width_ratios": (1.35, 1)}
    ranks, gain = figure.subplots(**shape)
    personal, common = view.ue_column("personalised_accuracy"), view.ue_column("global_accuracy")
    draw_ranks(ranks, personal, common)
    draw_gain(gain, personal, common)
    _title(figure, view, f"What each of {len(personal)} UEs got")


PICTURES: dict[str, tuple[tuple[float, float, float], Callable[["Figure", RunView], None]]] = {
    "progress": ((7.2, 5.6, 4.2), _progress),
    "schedule": ((7.2, 5.4, 3.8), _schedule),
    "latency": ((7.2, 3.1, 5.4), _latency),
    "ues": ((7.2, 3.5, 5.0), _ues),
}
"""Every picture by its name: width, height and height in one column of a paper (in), and what draws it."""


def waiting_rounds(view: RunView) -> FloatArray:
    """[K, T]: for an edge called in a round, rounds since its last call (from the start, if none); else NaN."""
    waits = np.full((view.num_edges, len(view.rows)), np.nan)
    last = np.zeros(view.num_edges)
    for index, row in enumerate(view.rows):
        called = np.asarray(row["scheduled"], dtype=np.int64)
        waits[called, index] = index - last[called]
        last[called] = index + 1
    return waits


def running_median(values: FloatArray) -> FloatArray:
    """Median over a window of about a tenth of the rounds, at least five, cut off at both ends."""
    half = max(2, len(values) // 20)
    return np.array([np.median(values[max(0, i - half) : i + half + 1]) for i in range(len(values))])


def _accuracy_panel(axes: "Axes", view: RunView, unit_s: float) -> None:
    """Means over UEs, the worst decile, and when the target was reached."""
    axes.set_ylabel("accuracy, mean over UEs")
    shown: Shown = [
        ("personalised_accuracy", "personalised", style.BLUE, "-"),
        ("personalised_accuracy_p10", "worst decile", style.SKY, style.DASHES[1]),
        ("global_accuracy", "global", style.VERMILLION, style.DASHES[2]),
    ]
    ends, seen = _draw_courses(axes, view, unit_s, shown, formats.share)
    if not ends:
        axes.text(0.5, 0.5, "this task has no accuracy", ha="center", color=style.MUTED, transform=axes.transAxes)
        return
    style.percent_axis(axes, float(seen.min()), float(seen.max()))
    _mark_target(axes, view, unit_s, ACCURACY)
    name_lines(axes, ends, gap=0.075)


def _draw_courses(
    axes: "Axes", view: RunView, unit_s: float, shown: Shown, text: Callable[[float], str]
) -> tuple[list[LineEnd], FloatArray]:
    """Draw what was evaluated; gives the ends of the lines, and all values."""
    ends, seen = [], [np.empty(0)]
    for metric, what, shade, dash in shown:
        time_s, values = view.evaluated(metric)
        if len(values):
            look = {"color": shade, "linestyle": dash}
            axes.plot(time_s / unit_s, values, **look, **_markers(values))
            end = {"x": float(time_s[-1]) / unit_s, "y": float(values[-1])}
            ends.append(LineEnd(**end, text=f"{what} {text(values[-1])}", look=look))
            seen.append(values)
    return ends, np.concatenate(seen)


def _mark_target(axes: "Axes", view: RunView, unit_s: float, metric: str) -> None:
    target = view.target
    reached = None if target is None else target.reached(view.rows)
    if target is None or reached is None or target.metric != metric:
        return
    bottom, height = axes.get_ylim()[0], view.rows[reached.round - 1][metric]
    axes.axhline(target.value, color=style.MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.vlines(reached.time_s / unit_s, bottom, height, color=style.MUTED, linewidth=0.8)
    axes.plot([reached.time_s / unit_s], [height], "o", color=style.INK, markersize=5, zorder=5)
    width = (0.47 if style.asked().look.narrow else 0.37) * axes.get_xlim()[1]
    begin, share = clear_place(axes, reached.time_s / unit_s, width)
    axes.annotate(
        f"{target.short} after {formats.seconds(reached.time_s)}, round {reached.round}",
        (reached.time_s / unit_s, share), xytext=(begin + 0.012 * axes.get_xlim()[1], share), va="center",
        xycoords=axes.get_xaxis_transform(), textcoords=axes.get_xaxis_transform(),
        arrowprops={"arrowstyle": "-", "color": style.MUTED, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0},
    )  # fmt: skip


def _loss_panel(axes: "Axes", view: RunView, unit_s: float) -> None:
    shown: Shown = [
        ("meta_loss", "personalised", style.BLUE, "-"),
        ("loss", "global", style.VERMILLION, style.DASHES[2]),
    ]
    if not len(view.evaluated(ACCURACY)[1]):  # where there is no accuracy, what test samples say is here
        shown += [
            (LOSS, "on tests", style.SKY, style.DASHES[1]),
            ("test_loss", "global, on tests", style.ORANGE, style.DASHES[3]),
        ]
    ends, _ = _draw_courses(axes, view, unit_s, shown, lambda value: f"{value:.3f}")
    axes.set_ylabel("loss, mean over UEs")
    axes.set_ylim(bottom=0 if all(end.y >= 0 for end in ends) else None)
    _mark_target(axes, view, unit_s, LOSS)
    name_lines(axes, ends, gap=0.09)


def _markers(values: FloatArray) -> dict[str, Any]:
    return {"marker": "o", "markersize": 2.6} if len(values) <= 60 else {}


_WAITED = "scheduled, and rounds waited since the last time (white: not scheduled)"


def _heat_map(figure: "Figure", axes: "Axes", waits: FloatArray) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    num_edges, num_rounds = waits.shape
    shades = LinearSegmentedColormap.from_list("waits", ["#b9d9ec", "#4f9bcb", "#0d5a92", "#3b0f3f"])
    image = axes.imshow(
        waits, aspect="auto", cmap=shades, vmin=0, vmax=float(np.nan_to_num(waits).max(initial=1.0)),
        extent=(0.5, num_rounds + 0.5, num_edges - 0.5, -0.5), interpolation="nearest",
    )  # fmt: skip
    axes.grid(visible=False)
    axes.set(xlabel="round", ylabel="edge")
    for axis in (axes.xaxis, axes.yaxis):
        style.whole_marks(axis, 8)
    bar = figure.colorbar(image, ax=axes, location="bottom", fraction=0.04, aspect=50, pad=0.02)
    narrow = style.asked().look.narrow
    bar.set_label("rounds waited (white: not scheduled)" if narrow else _WAITED)
    bar.outline.set_visible(False)
    style.whole_marks(bar.ax.xaxis, 8)


def _call_bars(axes: "Axes", waits: FloatArray) -> None:
    shares = np.isfinite(waits).mean(axis=1)
    axes.barh(np.arange(len(shares)), shares, height=0.8, color=style.SLATE)
    axes.set_xlim(0, 1)
    if style.asked().look.narrow:
        axes.set_xticks([0, 1], ["0", "100 %"])
    else:
        axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.set_xlabel("share of\nrounds")
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)


def _latency_histogram(axes: "Axes", latency: FloatArray) -> None:
    axes.hist(latency, bins=min(40, max(8, len(latency) // 6)), orientation="horizontal", color=style.SKY, alpha=0.8)
    axes.set(xlabel="rounds", title="Distribution")
    style.whole_marks(axes.xaxis, 4)
    median, high = np.quantile(latency, [0.5, 0.9])
    for value, text, dash in ((high, "90 % below", style.DASHES[2]), (median, "median", style.DASHES[1])):
        axes.axhline(value, color=style.INK, linewidth=1, linestyle=dash, label=f"{text} {formats.seconds(value)}")
    axes.legend(loc="best", frameon=False, fontsize=style.points(7.5), handlelength=2, borderaxespad=0.2)


def _title(figure: "Figure", view: RunView, what: str) -> None:
    names = [name for name in (view.system, view.planner and f"planner {view.planner}") if name]
    length = f"{len(view.rows)} rounds, {formats.seconds(view.rows[-1]['time_s'])} of {view.time_word}"
    label = [] if view.label == view.system else [view.label]
    style.headline(figure, what, "  ·  ".join([*label, *names, length]))
