"""Four pictures of one run: how it learned, whom it called, how long rounds took, and what each UE got."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.folder import FIGURES
from hpfl.reporting.runs import RunView, load_run
from hpfl.reporting.store import OutputError
from hpfl.reporting.targets import ACCURACY, LOSS
from hpfl.reporting.ue_panels import draw_gain, draw_ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_run(folder: Path, *, kinds: Sequence[str] = ("png",)) -> list[Path]:
    """Draw every figure the results in `folder` have the data for, into `folder/figures`; gives their paths."""
    view = load_run(folder)
    has_ues = np.isfinite(view.ue_column("personalised_accuracy")).any()
    names = [name for name in PICTURES if name != "ues" or has_ues]
    return [_saved(view, name, Path(folder) / FIGURES / f"{name}.{kind}") for name in names for kind in kinds]


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


def _saved(view: RunView, name: str, path: Path) -> Path:
    with _drawn(view, name) as figure:
        return style.save(figure, path)


@contextmanager
def _drawn(view: RunView, name: str) -> Iterator["Figure"]:
    if name not in PICTURES:
        raise ValueError(f"no picture of a run is called {name!r}; there are {', '.join(PICTURES)}")
    if not view.rows:
        raise OutputError(f"{view.label} has no rounds yet to draw")
    size_in, draw = PICTURES[name]
    with style.drawing(*size_in) as figure:
        draw(figure, view)
        yield figure


def _progress(figure: "Figure", view: RunView) -> None:
    """Accuracies and losses against simulated time, rounds on the second axis."""
    accuracy, loss = figure.subplots(2, 1, sharex=True, height_ratios=(1.25, 1))
    unit_s, unit = style.time_unit(float(view.column("time_s")[-1]))
    _accuracy_panel(accuracy, view, unit_s)
    _loss_panel(loss, view, unit_s)
    loss.set_xlim(0, view.column("time_s")[-1] / unit_s or 1.0)
    loss.set_xlabel(f"{view.time_word} ({unit})")
    style.rounds_on_top(accuracy, view.column("time_s"), unit_s)
    _title(figure, view, "How the model learned")


def _schedule(figure: "Figure", view: RunView) -> None:
    """Who was called in which round and after how long a wait; latency above, how often each edge was called beside."""
    grid = figure.subplots(2, 2, sharex="col", sharey="row", width_ratios=(6, 1), height_ratios=(1, 3))
    latency, (heat, calls) = grid[0, 0], grid[1]
    grid[0, 1].axis("off")
    rounds = np.arange(1, len(view.rows) + 1)
    latency.fill_between(rounds, view.column("latency_s"), step="mid", color=style.SLATE, linewidth=0)
    latency.set_ylabel("round\nlatency (s)")
    latency.set_ylim(bottom=0)
    waits = waiting_rounds(view)
    _heat_map(figure, heat, waits)
    _call_bars(calls, waits)
    _title(figure, view, "Which edges were scheduled, and how long they had waited")


def _latency(figure: "Figure", view: RunView) -> None:
    """How long rounds took: round by round, as a distribution, and against the number of edges called."""
    course, spread, against = figure.subplots(1, 3, width_ratios=(1.5, 1, 1), sharey=True)
    latency = view.column("latency_s")
    course.plot(np.arange(1, len(latency) + 1), latency, ".", color=style.SKY, markersize=3, alpha=0.7)
    course.plot(np.arange(1, len(latency) + 1), running_median(latency), color=style.BLUE)
    course.set(xlabel="round", ylabel="round latency (s)", title="Round by round")
    course.text(0.98, 0.03, "line: running median", ha="right", color=style.MUTED, transform=course.transAxes)
    course.set_ylim(bottom=0, top=float(latency.max()) * 1.08 or 1)
    _latency_histogram(spread, latency)
    edges = view.column("num_scheduled")
    against.plot(edges, latency, "o", color=style.BLUE, markersize=3.5, alpha=0.35, markeredgewidth=0)
    against.set(xlabel="edges scheduled", title="By edges scheduled")
    _whole_ticks(against, edges)
    _title(figure, view, "How long rounds took")


def _ues(figure: "Figure", view: RunView) -> None:
    """Final accuracy over UEs, and what personalisation was worth to each of them."""
    ranks, gain = figure.subplots(1, 2, width_ratios=(1.35, 1))
    personal, common = view.ue_column("personalised_accuracy"), view.ue_column("global_accuracy")
    draw_ranks(ranks, personal, common)
    draw_gain(gain, personal, common)
    _title(figure, view, f"What each of {len(personal)} UEs got")


PICTURES: dict[str, tuple[tuple[float, float], Callable[["Figure", RunView], None]]] = {
    "progress": ((7.2, 5.6), _progress),
    "schedule": ((7.2, 5.4), _schedule),
    "latency": ((7.2, 3.1), _latency),
    "ues": ((7.2, 3.5), _ues),
}
"""Every picture by its name: its size in inches, and what draws it."""


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
    entries: list[tuple[float, str, str]] = []
    lows, highs = [1.0], [0.0]
    for metric, text, shade, line in (
        ("personalised_accuracy", "personalised", style.BLUE, "-"),
        ("personalised_accuracy_p10", "  worst decile", style.SKY, (0, (4, 1.5))),
        ("global_accuracy", "global", style.VERMILLION, "-"),
    ):
        time_s, values = view.evaluated(metric)
        if len(values):
            axes.plot(time_s / unit_s, values, color=shade, linestyle=line, **_markers(values))
            entries.append((values[-1], f"{text.strip()} {formats.share(values[-1])}", shade))
            lows, highs = [*lows, values.min()], [*highs, values.max()]
    axes.set_ylabel("accuracy, mean over UEs")
    if not entries:
        axes.text(0.5, 0.5, "this task has no accuracy", ha="center", color=style.MUTED, transform=axes.transAxes)
        return
    style.percent_axis(axes, min(lows), max(highs))
    _mark_target(axes, view, unit_s, ACCURACY)
    style.end_labels(axes, entries, gap=0.075)


def _mark_target(axes: "Axes", view: RunView, unit_s: float, metric: str) -> None:
    target = view.target
    reached = None if target is None else target.reached(view.rows)
    if target is None or reached is None or target.metric != metric:
        return
    bottom, height = axes.get_ylim()[0], view.rows[reached.round - 1][metric]
    axes.axhline(target.value, color=style.MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.vlines(reached.time_s / unit_s, bottom, height, color=style.MUTED, linewidth=0.8)
    axes.plot([reached.time_s / unit_s], [height], "o", color=style.INK, markersize=5, zorder=5)
    axes.annotate(
        f"{target.short} after {formats.seconds(reached.time_s)}, round {reached.round}",
        (reached.time_s / unit_s, bottom),
        xytext=(6, 6),
        textcoords="offset points",
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
    )


def _loss_panel(axes: "Axes", view: RunView, unit_s: float) -> None:
    entries: list[tuple[float, str, str]] = []
    shown: list[tuple[str, str, str, Any]] = [
        ("meta_loss", "personalised", style.BLUE, "-"),
        ("loss", "global", style.VERMILLION, "-"),
    ]
    if not len(view.evaluated(ACCURACY)[1]):  # where there is no accuracy, what test samples say is here
        dotted = (0, (4, 1.5))
        shown += [(LOSS, "on tests", style.SKY, dotted), ("test_loss", "global, on tests", style.ORANGE, dotted)]
    for metric, text, shade, line in shown:
        time_s, values = view.evaluated(metric)
        if len(values):
            axes.plot(time_s / unit_s, values, color=shade, linestyle=line, **_markers(values))
            entries.append((values[-1], f"{text} {values[-1]:.3f}", shade))
    axes.set_ylabel("loss, mean over UEs")
    axes.set_ylim(bottom=0 if all(entry[0] >= 0 for entry in entries) else None)
    _mark_target(axes, view, unit_s, LOSS)
    style.end_labels(axes, entries, gap=0.09)


def _markers(values: FloatArray) -> dict[str, Any]:
    return {"marker": "o", "markersize": 2.6} if len(values) <= 60 else {}


def _heat_map(figure: "Figure", axes: "Axes", waits: FloatArray) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    num_edges, num_rounds = waits.shape
    shades = LinearSegmentedColormap.from_list("waits", ["#b9d9ec", "#4f9bcb", "#0d5a92", "#3b0f3f"])
    image = axes.imshow(
        waits, aspect="auto", cmap=shades, vmin=0, vmax=float(np.nan_to_num(waits).max(initial=1.0)),
        extent=(0.5, num_rounds + 0.5, num_edges - 0.5, -0.5), interpolation="nearest",
    )  # fmt: skip
    axes.grid(visible=False)
    axes.set(xlabel="round", ylabel="edge")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    bar = figure.colorbar(image, ax=axes, location="bottom", fraction=0.04, aspect=50, pad=0.02)
    bar.set_label("scheduled, and rounds waited since the last time (white: not scheduled)")
    bar.outline.set_visible(False)
    bar.ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def _call_bars(axes: "Axes", waits: FloatArray) -> None:
    shares = np.isfinite(waits).mean(axis=1)
    axes.barh(np.arange(len(shares)), shares, height=0.8, color=style.SLATE)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.set_xlabel("share of rounds")
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)


def _latency_histogram(axes: "Axes", latency: FloatArray) -> None:
    axes.hist(latency, bins=min(40, max(8, len(latency) // 6)), orientation="horizontal", color=style.SKY, alpha=0.8)
    axes.set(xlabel="rounds", title="Distribution")
    axes.set_xlim(right=1.3 * axes.get_xlim()[1])
    median, high = np.quantile(latency, [0.5, 0.9])
    for value, text in ((median, "median"), (high, "90 % below")):
        axes.axhline(value, color=style.INK, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            f"{text} {formats.seconds(value)}", (1, value), xycoords=axes.get_yaxis_transform(), xytext=(0, 2),
            textcoords="offset points", ha="right", va="bottom", fontsize=7.5,
        )  # fmt: skip


def _whole_ticks(axes: "Axes", counts: FloatArray) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(counts.min() - 0.8, counts.max() + 0.8)


def _title(figure: "Figure", view: RunView, what: str) -> None:
    names = [name for name in (view.system, view.planner and f"planner {view.planner}") if name]
    length = f"{len(view.rows)} rounds, {formats.seconds(view.rows[-1]['time_s'])} of {view.time_word}"
    label = [] if view.label == view.system else [view.label]
    style.headline(figure, what, "  ·  ".join([*label, *names, length]))
