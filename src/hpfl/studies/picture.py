"""The picture of `time-to-accuracy`: seconds to the target against how many edges a round takes, and `fastest`'s."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.reporting.style import BLUE, INK, MUTED, ORANGE, VERMILLION, drawing, headline, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
_SIZES = {"random-1": 1, "random-2": 2, "random-4": 4, "random-8": 8, "random-15": 15, "full": 20}
_MARKED = {"paper": (15, VERMILLION, "paper"), "shpfl": (15, ORANGE, "SHPFL")}


def draw(cells: Sequence[Row], target: Mapping[str, float], folder: Path) -> list[Path]:
    """`time-to-accuracy.png` and `.svg` in `folder`, one panel for each data set and skew with clock `round`."""
    here = [row for row in cells if row["clock"] == "round" and row["target"] == target[row["data"]] and row["time_s"]]
    places = sorted({(row["data"], row["edge_skew"]) for row in here if row["planner"] == "fastest"})
    if not places:
        return []
    with drawing(1.2 + 2.7 * len(places), 3.4) as figure:
        headline(figure, "How many edges should a round wait for?", "simulated time to the target, geometric mean")
        panels = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
        for axes, (data, skew) in zip(panels, places, strict=True):
            _panel(axes, [row for row in here if (row["data"], row["edge_skew"]) == (data, skew)])
            axes.set_title(f"{data}, edge skew {skew:g}, {100 * target[data]:.0f} %")
        panels[0].set_ylabel("seconds to the target")
        return [save(figure, folder / f"time-to-accuracy.{kind}") for kind in ("png", "svg")]


def _panel(axes: "Axes", rows: Sequence[Row]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    best = {name: _best(rows, name) for name in (*_SIZES, *_MARKED, "fastest")}
    fixed = [(size, row) for name, size in _SIZES.items() if (row := best[name])]
    axes.errorbar(
        [size for size, _ in fixed], [row["time_s"] for _, row in fixed], yerr=_whiskers([row for _, row in fixed]),
        color=MUTED, marker="o", markersize=3.5, capsize=2, label="as many at random, every round",
    )  # fmt: skip
    for name, (size, shade, label) in _MARKED.items():
        if row := best[name]:
            axes.plot([size], [row["time_s"]], marker="D", color=shade, linestyle="none", label=label)
    if row := best["fastest"]:
        axes.axhline(row["time_s"], color=BLUE, label="fastest")
        if row["time_low_s"] is not None:
            axes.axhspan(row["time_low_s"], row["time_high_s"], color=BLUE, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(list(_SIZES.values()), [str(size) for size in _SIZES.values()])
    axes.set_xlabel("edges per round", color=INK)
    axes.legend(loc="upper left", frameon=False, fontsize=7)


def _best(rows: Sequence[Row], planner: str) -> Row | None:
    """The planner's cell with the broadcast that is better for it, if all its seeds arrived."""
    cells = [row for row in rows if row["planner"] == planner and row["reached"] == row["seeds"]]
    return min(cells, key=lambda row: row["time_s"], default=None)


def _whiskers(rows: Sequence[Row]) -> list[list[float]]:
    low = [row["time_s"] - (row["time_low_s"] or row["time_s"]) for row in rows]
    return [low, [(row["time_high_s"] or row["time_s"]) - row["time_s"] for row in rows]]
