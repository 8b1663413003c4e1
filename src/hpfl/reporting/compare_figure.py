"""One picture of several runs: when each reached the accuracy, and why then (rounds times seconds per round)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.reporting import formats, style
from hpfl.reporting.runs import FloatArray, RunView, common_time_word
from hpfl.reporting.why import NOTICEABLE, Way, common_target, way_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

METRIC = "personalised_accuracy"
MOST_ARROWS = 4
"""With more runs than this only the slowest is measured against the fastest."""


def compare_figure(runs: Sequence[RunView], path: Path, *, target: float | None = None) -> Path:
    """Accuracy against time with the way to the target, and the distributions that explain it."""
    wanted = common_target(runs)[0] if target is None else target
    ways = [None if wanted is None else way_to(view, wanted) for view in runs]
    bars_in = 0.62 + 0.27 * len(runs)
    with style.drawing(7.6, 4.6 + 2 * bars_in + 0.4) as figure:
        parts: Any = figure.subfigures(3, 1, height_ratios=(4.1, bars_in, bars_in + 0.25), hspace=0.03)
        top, middle, bottom = parts
        _courses(top.subplots(), runs, wanted, ways)
        _equation(middle, runs, ways)
        _distributions(bottom, runs, ways)
        _headline(figure, runs, wanted, ways)
        return style.save(figure, path)


def _headline(figure: "Figure", runs: Sequence[RunView], target: float | None, ways: Sequence[Way | None]) -> None:
    reached = sorted((way for way in ways if way), key=lambda way: way.time_s)
    if target is None or not reached:
        title = f"Accuracy against {common_time_word(runs)}"
    elif len(reached) == len(runs) == 2 and reached[1].time_s > NOTICEABLE * reached[0].time_s:
        sooner = f"{reached[1].time_s / reached[0].time_s:.1f}× sooner than {reached[1].label}"
        title = f"{reached[0].label} reaches {formats.share(target)} accuracy {sooner}"
    elif len(reached) > 1 and reached[1].time_s <= NOTICEABLE * reached[0].time_s:
        title = f"{reached[0].label} and {reached[1].label} reach {formats.share(target)} accuracy at the same time"
    else:
        title = f"{reached[0].label} reaches {formats.share(target)} accuracy first"
    style.headline(figure, title, _facts(runs))


def _facts(runs: Sequence[RunView]) -> str:
    if len(runs) > 2:
        lengths = sorted(len(view.rows) for view in runs)
        return f"{len(runs)} runs of {lengths[0]} to {lengths[-1]} rounds"
    return "  ·  ".join(f"{view.label}: {_names(view)}{len(view.rows)} rounds" for view in runs)


def _names(view: RunView) -> str:
    system = None if view.system == view.label else view.system
    return "".join(f"{name}, " for name in (system, view.planner and f"planner {view.planner}") if name)


def _courses(axes: "Axes", runs: Sequence[RunView], target: float | None, ways: Sequence[Way | None]) -> None:
    shown_s = _shown_s(runs, ways)
    unit_s, unit = style.time_unit(shown_s)
    axes.set(xlabel=f"{common_time_word(runs)} ({unit})", ylabel="personalised accuracy, mean over UEs")
    axes.set_xlim(0, shown_s / unit_s or 1.0)
    values = [view.evaluated(METRIC) for view in runs]
    seen = np.concatenate([accuracy for _, accuracy in values])
    if not len(seen):
        axes.text(0.5, 0.5, "no run has evaluated an accuracy", ha="center", transform=axes.transAxes)
        return
    for index, (time_s, accuracy) in enumerate(values):
        axes.plot(
            time_s / unit_s,
            accuracy,
            color=style.colour(index),
            linestyle=style.dash(index),
            marker="o",
            markersize=2.4,
        )
    style.percent_axis(axes, float(seen.min()), float(seen.max()))
    if target is not None:
        _mark_target(axes, target, ways, unit_s)
    _name_lines(axes, runs)


def _shown_s(runs: Sequence[RunView], ways: Sequence[Way | None]) -> float:
    """How far the time axis goes: to the end, but a long tail after everybody has arrived is cut."""
    longest_s = max(float(view.rows[-1]["time_s"]) for view in runs)
    arrived_s = [way.time_s for way in ways if way]
    if len(arrived_s) < len(runs) or 1.5 * max(arrived_s) > 0.8 * longest_s:
        return longest_s
    return 1.5 * max(arrived_s)


def _name_lines(axes: "Axes", runs: Sequence[RunView]) -> None:
    entries = [
        (float(accuracy[-1]), f"{view.label} {formats.share(accuracy[-1])}", style.colour(index))
        for index, view in enumerate(runs)
        for _, accuracy in [view.evaluated(METRIC)]
        if len(accuracy)
    ]
    axes.annotate(
        "at the end", (1.0, 1.0), xycoords="axes fraction", xytext=(5, 2), textcoords="offset points", color=style.MUTED
    )
    style.end_labels(axes, entries, gap=0.06)


def _mark_target(axes: "Axes", target: float, ways: Sequence[Way | None], unit_s: float) -> None:
    """The target as a line; from where a run reached it a line drops, and arrows say how much sooner the first was."""
    bottom, top = axes.get_ylim()
    axes.axhline(target, color=style.MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.annotate(
        f"target {formats.share(target)}", (0.995, target), xycoords=axes.get_yaxis_transform(), xytext=(0, -3),
        textcoords="offset points", color=style.MUTED, ha="right", va="top",
    )  # fmt: skip
    reached = sorted((way.time_s, index) for index, way in enumerate(ways) if way)
    for index, way in enumerate(ways):
        if way:
            axes.vlines(way.time_s / unit_s, bottom, way.accuracy, color=style.colour(index), linewidth=1, alpha=0.8)
            axes.plot([way.time_s / unit_s], [way.accuracy], "o", color=style.colour(index), markersize=6.5, zorder=5)
    others = reached[1:] if len(reached) <= MOST_ARROWS + 1 else reached[-1:]
    for step, (time_s, _) in enumerate(others):
        height = bottom + (0.09 + 0.085 * (len(others) - 1 - step)) * (top - bottom)
        _gap_arrow(axes, (reached[0][0] / unit_s, time_s / unit_s), height, time_s / reached[0][0])


def _gap_arrow(axes: "Axes", ends: tuple[float, float], height: float, ratio: float) -> None:
    if ratio < NOTICEABLE:
        return
    arrow = {"arrowstyle": "<->", "color": style.INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (ends[0], height), xytext=(ends[1], height), arrowprops=arrow)
    wide = (ends[1] - ends[0]) > 0.16 * axes.get_xlim()[1]
    place: dict[str, Any] = (
        {"ha": "center", "va": "bottom", "xytext": (0, 3)} if wide else {"va": "center", "xytext": (6, 0)}
    )
    axes.annotate(
        f"{ratio:.1f}× sooner",
        (sum(ends) / 2 if wide else ends[1], height),
        textcoords="offset points",
        fontweight="bold",
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.9, "pad": 0.8},
        **place,
    )


def _equation(figure: "SubFigure", runs: Sequence[RunView], ways: Sequence[Way | None]) -> None:
    """Rounds × seconds per round = seconds, as three bar charts that read like the formula."""
    panels = figure.subplots(1, 3, sharey=True)
    columns: tuple[tuple[str, list[float | None], Callable[[float | None], str]], ...] = (
        ("Rounds to the target", [way.rounds if way else None for way in ways], formats.number),
        ("×  length of a mean round", [way.seconds_per_round if way else None for way in ways], formats.seconds),
        (f"=  {common_time_word(runs)} to it", [way.time_s if way else None for way in ways], formats.seconds),
    )
    for axes, (title, values, text) in zip(panels, columns, strict=True):
        _bars(axes, values, [text(value) if value else "not reached" for value in values])
        axes.set_title(title)
    _name_rows(panels[0], runs)


def _bars(axes: "Axes", values: Sequence[float | None], texts: Sequence[str]) -> None:
    widths = [value or 0.0 for value in values]
    axes.barh(range(len(widths)), widths, height=0.62, color=[style.colour(index) for index in range(len(widths))])
    for index, (width, text) in enumerate(zip(widths, texts, strict=True)):
        shade = style.INK if width else style.MUTED
        axes.annotate(text, (width, index), xytext=(4, 0), textcoords="offset points", va="center", color=shade)
    axes.set_xlim(0, (max(widths) or 1) * 1.45)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _name_rows(axes: "Axes", runs: Sequence[RunView]) -> None:
    axes.set_yticks(range(len(runs)), [view.label for view in runs])
    axes.set_ylim(len(runs) - 0.45, -0.55)
    for index, name in enumerate(axes.get_yticklabels()):
        name.set_color(style.colour(index))


def _distributions(figure: "SubFigure", runs: Sequence[RunView], ways: Sequence[Way | None]) -> None:
    """What rounds were like on the way: how long, how many edges, how fast on the air, how old the updates."""
    counted = [way.rounds if way else len(view.rows) for view, way in zip(runs, ways, strict=True)]
    panels = figure.subplots(1, 4, sharey=True)
    for axes, (label, values) in zip(panels, _round_figures(runs).items(), strict=True):
        _boxes(axes, [column[:count] for column, count in zip(values, counted, strict=True)])
        axes.set_xlabel(label)
    until = "Rounds until the target" if all(ways) else "Rounds until the target, or all where it was not reached"
    title = f"{until if any(ways) else 'All rounds'}: median, middle half, 5 to 95 %"
    figure.suptitle(title, x=0.012, ha="left", fontsize=9.5, fontweight="bold")
    _name_rows(panels[0], runs)


def _round_figures(runs: Sequence[RunView]) -> dict[str, list[FloatArray]]:
    return {
        "round latency (s)": [view.column("latency_s") for view in runs],
        "edges scheduled": [view.column("num_scheduled") for view in runs],
        "uplink (Mbit/s)": [_uplink_mbps(view) for view in runs],
        "staleness (rounds)": [view.column("mean_staleness") for view in runs],
    }


def _uplink_mbps(view: RunView) -> FloatArray:
    seconds = view.column("latency_s")
    return view.column("uplink_bits") / np.where(seconds > 0, seconds, np.nan) / 1e6


def _boxes(axes: "Axes", columns: Sequence[FloatArray]) -> None:
    from matplotlib.ticker import MaxNLocator

    known = [np.nan_to_num(values) for values in columns]
    for index, values in enumerate(known):
        low, first, median, third, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
        shade = style.colour(index)
        axes.hlines(index, low, high, color=shade, linewidth=1.2)
        axes.barh(index, third - first, left=first, height=0.5, color=shade, alpha=0.35, edgecolor="none")
        axes.vlines(median, index - 0.3, index + 0.3, color=shade, linewidth=2.2)
    right = max(float(np.quantile(values, 0.95)) for values in known) or 1.0
    axes.set_xlim(-0.02 * right, 1.06 * right)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=right > 5, steps=[1, 2, 5, 10]))
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
