"""The lower half of a comparison's picture: rounds times seconds per round, and what rounds were like."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting import formats, style
from hpfl.reporting.groups import Group
from hpfl.reporting.intervals import Interval
from hpfl.reporting.runs import RunView, common_time_word
from hpfl.reporting.ways import Way, Ways

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure


def equation(figure: "SubFigure", groups: Sequence[Group], ways: Sequence[Ways]) -> None:
    """Rounds × seconds per round = seconds, as three bar charts that read like the formula; means over seeds."""
    panels = figure.subplots(1, 3, sharey=True)
    word = common_time_word(group.time_word for group in groups)
    columns: tuple[tuple[str, Callable[[Way], float], Callable[[float | None], str]], ...] = (
        ("Rounds to the target", lambda way: way.rounds, formats.number),
        ("×  length of a mean round", lambda way: way.seconds_per_round, formats.seconds),
        (f"=  {word} to it", lambda way: way.time_s, formats.seconds),
    )
    for axes, (title, value, text) in zip(panels, columns, strict=True):
        _bars(
            axes, [each.over_seeds(value) for each in ways] or [None] * len(groups), _texts(groups, ways, value, text)
        )
        axes.set_title(title)
    _name_rows(panels[0], groups)


def distributions(figure: "SubFigure", groups: Sequence[Group], ways: Sequence[Ways]) -> None:
    """What rounds were like on the way: how long, how many edges, how fast on the air, how old the updates."""
    panels = figure.subplots(1, 4, sharey=True)
    for axes, (label, column) in zip(panels, _ROUND_FIGURES.items(), strict=True):
        columns = [_pooled(index, group, ways, column) for index, group in enumerate(groups)]
        _boxes(axes, columns, counted=label == _COUNTED)
        axes.set_xlabel(label)
    everybody = bool(ways) and all(each.all_arrived for each in ways)
    until = "Rounds until the target" if everybody else "Rounds until the target, or all where it was not reached"
    somebody = any(each.arrived for each in ways)
    seeds = ", all seeds" if any(len(group.runs) > 1 for group in groups) else ""
    title = f"{until if somebody else 'All rounds'}{seeds}: median, middle half, 5 to 95 %"
    weight = "normal" if style.asked().look.printed else "bold"
    figure.suptitle(title, x=0.012, ha="left", fontsize=style.points(9.5), fontweight=weight)
    _name_rows(panels[0], groups)


def _texts(
    groups: Sequence[Group], ways: Sequence[Ways], value: Callable[[Way], float], text: Callable[[float | None], str]
) -> list[str]:
    texts = []
    for each in ways:
        arrived, there = len(each.arrived), len(each.group.runs)
        missed = "not reached" if not arrived or there == 1 else f"{arrived} of {there} arrive"
        texts.append(text(each.mean(value)) if each.all_arrived else missed)
    return texts or ["not reached"] * len(groups)


def _bars(axes: "Axes", values: Sequence[Interval | None], texts: Sequence[str]) -> None:
    widths = [value.mean if value else 0.0 for value in values]
    axes.barh(range(len(widths)), widths, height=0.62, color=[style.colour(index) for index in range(len(widths))])
    reach = list(widths)
    for index, value in enumerate(values):
        if value is not None and value.low is not None and value.high is not None:
            reach[index] = value.high
            axes.hlines(index, max(value.low, 0.0), value.high, color=style.INK, linewidth=1.1)
    for index, (end, text) in enumerate(zip(reach, texts, strict=True)):
        shade = style.INK if end else style.MUTED
        axes.annotate(text, (end, index), xytext=(4, 0), textcoords="offset points", va="center", color=shade)
    axes.set_xlim(0, (max(reach) or 1) * 1.45)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _name_rows(axes: "Axes", groups: Sequence[Group]) -> None:
    axes.set_yticks(range(len(groups)), [group.label for group in groups])
    axes.set_ylim(len(groups) - 0.45, -0.55)
    for index, name in enumerate(axes.get_yticklabels()):
        name.set_color(style.words(style.colour(index)))


def _pooled(index: int, group: Group, ways: Sequence[Ways], column: Callable[[RunView], FloatArray]) -> FloatArray:
    """A figure of the rounds of all seeds, each until its target."""
    there = ways[index].by_seed if ways else {}
    counts = {seed: way.rounds for seed, way in there.items() if way}
    return np.concatenate([column(view)[: counts.get(seed)] for seed, view in group.by_seed.items()])


def _uplink_mbps(view: RunView) -> FloatArray:
    seconds = view.column("latency_s")
    return view.column("uplink_bits") / np.where(seconds > 0, seconds, np.nan) / 1e6


_COUNTED = "edges scheduled"
_ROUND_FIGURES: dict[str, Callable[[RunView], FloatArray]] = {
    "round latency (s)": lambda view: view.column("latency_s"),
    _COUNTED: lambda view: view.column("num_scheduled"),
    "uplink (Mbit/s)": _uplink_mbps,
    "staleness (rounds)": lambda view: view.column("mean_staleness"),
}


def _boxes(axes: "Axes", columns: Sequence[FloatArray], *, counted: bool) -> None:
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
    if counted:
        style.whole_marks(axes.xaxis, 4)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
