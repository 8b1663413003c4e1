"""The figure of a search: the best so far by trial, values against each key, and which keys matter."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.reporting import style
from hpfl.reporting.line_names import LineEnd, name_lines
from hpfl.tuning.asking import importances
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.trials import DONE, PRUNED, Search
from hpfl.tuning.tune_settings import Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

MOST_DECADES = 1.5
MOST_SLICES = 6
"""Keys that have a panel, the first of the space."""


def search_figure(plan: TunePlan, searches: Sequence[Search], path: Path) -> Path:
    """Draw it; `searches` have finished trials."""
    slices = list(plan.space)[:MOST_SLICES]
    panels = [*slices, *(["importance"] if len(plan.space) > 1 else [])]
    across = 1 if style.asked().look.narrow else min(len(panels), 3)
    down = -(-len(panels) // across)
    with style.drawing(7.6, 2.9 + 2.3 * down + style.HEADLINE_IN, narrow_in=2.4 + 2.0 * down) as figure:
        grid = figure.add_gridspec(1 + down, across, height_ratios=[1.25, *[1.0] * down])
        _history(figure.add_subplot(grid[0, :]), plan, searches)
        for at, name in enumerate(panels):
            axes = figure.add_subplot(grid[1 + at // across, at % across])
            if name in plan.space:
                _slice(axes, plan, searches, name)
            else:
                _importance(axes, plan, searches)
        counts = {len(search.trials) for search in searches}
        trials = f"{max(counts)} trials" + (" each" if len(searches) > 1 else "")
        facts = (
            f"{trials}, {len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)} a trial; line: best so far, large dot: best"
        )
        given_up = sum(trial.state == PRUNED for search in searches for trial in search.trials)
        facts += f"; {given_up} given up on the way, not drawn" if given_up else ""
        style.headline(figure, f"{plan.objective.title[:1].upper()}{plan.objective.title[1:]}", facts)
        return style.save(figure, path)


def _history(axes: "Axes", plan: TunePlan, searches: Sequence[Search]) -> None:
    ends = []
    last = max(len(search.trials) for search in searches) - 1
    for index, search in enumerate(searches):
        number, value = _finished(search)
        keep = np.minimum if plan.objective.less else np.maximum
        best = keep.accumulate(value)
        axes.plot(number, value, **_dots(index))
        axes.step([*number, last], [*best, best[-1]], where="post", **style.series(index))
        ends.append(LineEnd(x=float(last), y=float(best[-1]), text=search.cell.short_label, look=style.series(index)))
    _value_axis(axes, plan)
    axes.set_xlim(-0.5, last + 0.5)
    axes.set_xlabel("trial")
    style.whole_marks(axes.xaxis, 8)
    if len(searches) > 1:
        name_lines(axes, ends)


def _slice(axes: "Axes", plan: TunePlan, searches: Sequence[Search], key: str) -> None:
    found = plan.space[key]
    for index, search in enumerate(searches):
        places = [_place(found, trial.params[key]) for trial in search.trials if trial.state == DONE]
        axes.plot(places, _finished(search)[1], **_dots(index))
        best = search.best
        if best is not None and best.value is not None:
            axes.plot(
                [_place(found, best.params[key])], [best.value], **(_dots(index) | {"markersize": 7, "alpha": 1.0})
            )
    if isinstance(found, list):
        axes.set_xticks(range(len(found)), [str(value) for value in found])
        axes.set_xlim(-0.5, len(found) - 0.5)
    elif found.log:
        axes.set_xscale("log")
        axes.set_xlim(found.low * 0.9, found.high * 1.1)
        _plain_marks(axes.xaxis, decades=math.log10(found.high / found.low) * (len(plan.space) > 1))
    _value_axis(axes, plan)
    axes.set_xlabel(key)


def _importance(axes: "Axes", plan: TunePlan, searches: Sequence[Search]) -> None:
    keys = list(plan.space)
    height = 0.8 / len(searches)
    for index, search in enumerate(searches):
        shares = importances(plan.space, search.known)
        places = [at + (index - (len(searches) - 1) / 2) * height for at in range(len(keys))]
        axes.barh(places, [100 * shares.get(key, 0.0) for key in keys], height * 0.9, color=style.colour(index))
    axes.set_yticks(range(len(keys)), [key.rpartition(".")[2] for key in keys])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlim(0, 100)
    axes.set_xlabel("importance (%)")


def _value_axis(axes: "Axes", plan: TunePlan) -> None:
    unit = f" ({plan.objective.unit})" if plan.objective.unit else ""
    axes.set_ylabel(f"{plan.objective.name.replace('_', ' ')}{unit}")
    if plan.objective.target is not None:
        axes.set_yscale("log")
        _plain_marks(axes.yaxis)
        axes.axhline(plan.objective.limit, color=style.MUTED, linewidth=0.7, linestyle=":")


def _plain_marks(axis: "Axis", *, decades: float = 0.0) -> None:
    """Marks of a logarithmic axis as plain numbers: at 1, 2 and 5, or at 1 alone where there are many decades."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < MOST_DECADES else (1.0,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _finished(search: Search) -> tuple[list[int], list[float]]:
    done = [(trial.number, trial.value) for trial in search.trials if trial.state == DONE and trial.value is not None]
    return [number for number, _ in done], [value for _, value in done]


def _dots(index: int) -> dict[str, Any]:
    mark = style.marks(index)["marker"] if style.asked().look.printed else "o"
    return {"linestyle": "", "marker": mark, "markersize": 3.6, "color": style.colour(index), "alpha": 0.55}


def _place(found: Range | list[Any], value: Any) -> float:
    return float(found.index(value)) if isinstance(found, list) else float(value)
