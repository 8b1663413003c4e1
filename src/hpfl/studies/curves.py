"""Pictures that many studies share: means over seeds as lines, their 95% intervals as bands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.reporting.style import DASHES, SERIES, asked, drawing, headline, marks, percent_axis, save_all
from hpfl.reporting.targets import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("svg", "png")
NAMES = {
    "full": "full",
    "paper": "proposed",
    "random": "random",
    "joint": "joint (certified)",
    "shpfl": "SHPFL",
    "alternating": "alternating",
    "fastest": "fastest",
    "mnist": "MNIST",
    "mnist-mini": "MNIST sample",
    "cifar10": "CIFAR-10",
    "fashion-mnist": "Fashion-MNIST",
}
SHADES = dict(zip(("paper", "full", "random", "joint", "shpfl", "fastest"), SERIES, strict=True))
WIDTHS = {"paper": 2.6, "joint": 1.2}
"""Where they choose alike, the one is seen beneath the other."""
AXES = {
    "meta_loss": "personalised training loss",
    "loss": "training loss of the global model",
    "personalised_accuracy": "personalised test accuracy",
    "global_accuracy": "test accuracy of the global model",
    "latency_s": "round latency (s)",
    "num_scheduled": "edges scheduled",
    "importance": "importance, summed over edges",
}


@dataclass(frozen=True)
class Line:
    """A series of rows, its name, and how it is drawn."""

    rows: Sequence[Row]
    label: str
    colour: str
    dash: Any = "-"
    marker: str = ""
    width: float = 1.7


def planner_line(rows: Sequence[Row], planner: str, *, label: str = "", dash: Any = "-", marker: str = "") -> Line:
    """A planner's line in its own colour."""
    return Line(rows, label or name(planner), SHADES[planner], dash, marker, WIDTHS.get(planner, 1.7))


def name(word: str) -> str:
    """How a planner or a data set is called in a figure."""
    return NAMES.get(word, word)


def draw_lines(axes: "Axes", lines: Sequence[Line], x: str, column: str) -> None:
    """Means against `x`, bands around them, and a y axis with a name and a unit."""
    for line in _told_apart(lines):
        rows = sorted((row for row in line.rows if row[column] is not None), key=lambda row: row[x])
        across = [row[x] for row in rows]
        axes.plot(
            across, [row[column] for row in rows],
            color=line.colour, linestyle=line.dash, linewidth=line.width, label=line.label, **_marked(line),
        )  # fmt: skip
        if rows and all(row[f"{column}_low"] is not None for row in rows):
            low, high = ([row[f"{column}_{end}"] for row in rows] for end in ("low", "high"))
            axes.fill_between(across, low, high, color=line.colour, alpha=0.15, linewidth=0)
    axes.set_ylabel(AXES.get(column, column))
    if "accuracy" in column:
        _percent(axes, [row[column] for line in lines for row in line.rows if row[column] is not None])


def _told_apart(lines: Sequence[Line]) -> Sequence[Line]:
    """In print, marks stand for colours, and dashes too unless they say something already."""
    if not asked().look.printed:
        return lines
    shades = list(dict.fromkeys(line.colour for line in lines))
    silent = all(line.dash == "-" for line in lines)
    return [
        replace(
            line,
            marker=line.marker or marks(shades.index(line.colour))["marker"],
            dash=DASHES[shades.index(line.colour) % len(DASHES)] if silent else line.dash,
        )
        for line in lines
    ]


def _marked(line: Line) -> dict[str, Any]:
    """A mark at every point where a study wants it, a few along the line where print does."""
    if not asked().look.printed:
        return {"marker": line.marker, "markersize": 3.5}
    return {"marker": line.marker, "markersize": 3.6, "markevery": 0.15, "fillstyle": "none"}


def _percent(axes: "Axes", values: Sequence[float]) -> None:
    if values:
        early = sorted(values)[len(values) // 20 :]  # the first steps of a run need not be seen whole
        percent_axis(axes, early[0], max(values))


def plain_log(axis: Any, *, wide: bool = False) -> None:
    """Marks at 1, 2 and 5 of every decade, or at 1 alone where there are many decades, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def panels(
    path: Path, facts: tuple[str, str], titles: Sequence[str], fill: Callable[[int, "Axes"], None], *, rows: int = 1
) -> list[Path]:
    """A figure of `rows` rows of panels under a headline with one legend below all, as SVG and PNG unless asked.

    One column of a paper has one panel a row.
    """
    rows = len(titles) if asked().look.narrow else rows
    columns = -(-len(titles) // rows)
    with drawing(3.7 * columns, 2.6 * rows + 1.15, narrow_in=2.1 * rows + 0.7) as figure:
        headline(figure, *facts)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for index, title in enumerate(titles):
            grid[index].set_title(title)
            fill(index, grid[index])
        for axes in grid[len(titles) :]:
            axes.axis("off")
        _legend(figure, list(grid))
        return save_all(figure, path, *KINDS)


def _legend(figure: "Figure", grid: Sequence["Axes"]) -> None:
    """One legend of all panels' lines, each once."""
    entries: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        columns = 4 if len(entries) % 4 == 0 else min(3, len(entries))
        columns = min(2, columns) if asked().look.narrow else columns
        handles, labels = list(entries.values()), list(entries)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
