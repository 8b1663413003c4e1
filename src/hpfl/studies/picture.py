"""The picture of `time-to-accuracy`: seconds to the target against how many edges a round takes, and `fastest`'s."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpfl.reporting.style import BLUE, INK, MUTED, ORANGE, VERMILLION
from hpfl.reporting.targets import Row
from hpfl.studies.curves import name, panels, plain_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZES = {"random-1": 1, "random-2": 2, "random-4": 4, "random-8": 8, "random-15": 15, "full": 20}
_FEW = 3
"""Of fewer seeds no interval is drawn: it would be wider than the figure."""
_MARKED = {"paper": (15, VERMILLION, "paper"), "shpfl": (15, ORANGE, "SHPFL")}


def draw(cells: Sequence[Row], target: Mapping[str, float], folder: Path) -> list[Path]:
    """`time-to-accuracy.svg` and `.png` in `folder`, one panel for each data set and skew with clock `round`."""
    here = [row for row in cells if row["clock"] == "round" and row["target"] == target[row["data"]]]
    there = {(row["data"], row["edge_skew"]) for row in here}
    places = sorted((place for place in there if _whole(here, place)), key=_order)
    if not places:
        return []

    def fill(index: int, axes: "Axes") -> None:
        _panel(axes, [row for row in here if (row["data"], row["edge_skew"]) == places[index]])

    facts = (
        "How many edges should a round wait for?",
        "simulated time to the target, geometric mean with 95 % interval; no mark where not every seed arrived",
    )
    titles = [f"{name(data)}, skew {skew:g}, to {100 * target[data]:.0f} %" for data, skew in places]
    return panels(folder / "time-to-accuracy", facts, titles, fill, rows=1 if len(places) < 4 else 2)


def _whole(rows: Sequence[Row], place: tuple[str, float]) -> bool:
    """Whether there is something to compare: `fastest` and a fixed number of edges, all of whose seeds arrived."""
    here = [row for row in rows if (row["data"], row["edge_skew"]) == place]
    return _best(here, "fastest") is not None and any(_best(here, planner) for planner in _SIZES)


def _order(place: tuple[str, float]) -> tuple[bool, str, float]:
    return (not place[0].startswith("mnist"), *place)


def _panel(axes: "Axes", rows: Sequence[Row]) -> None:
    best = {planner: _best(rows, planner) for planner in (*_SIZES, *_MARKED, "fastest")}
    fixed = [(size, row) for planner, size in _SIZES.items() if (row := best[planner])]
    axes.errorbar(
        [size for size, _ in fixed], [row["time_s"] for _, row in fixed], yerr=_whiskers([row for _, row in fixed]),
        color=MUTED, marker="o", markersize=3.5, capsize=2, label="as many at random, every round",
    )  # fmt: skip
    for planner, (size, shade, label) in _MARKED.items():
        if row := best[planner]:
            axes.plot([size], [row["time_s"]], marker="D", color=shade, linestyle="none", label=label)
    if row := best["fastest"]:
        axes.axhline(row["time_s"], color=BLUE, label="fastest")
        if row["seeds"] >= _FEW:
            axes.axhspan(row["time_low_s"], row["time_high_s"], color=BLUE, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plain_log(axes.yaxis)
    axes.set_xticks(list(_SIZES.values()), [str(size) for size in _SIZES.values()])
    axes.set_xlabel("edges per round", color=INK)
    axes.set_ylabel("simulated time to the target (s)")


def _best(rows: Sequence[Row], planner: str) -> Row | None:
    """The planner's cell with the broadcast that is better for it, of those with most seeds, if they all arrived."""
    cells = [row for row in rows if row["planner"] == planner]
    most = max((row["seeds"] for row in cells), default=0)
    arrived = [row for row in cells if row["reached"] == row["seeds"] == most]
    return min(arrived, key=lambda row: row["time_s"], default=None)


def _whiskers(rows: Sequence[Row]) -> list[list[float]]:
    return [[abs(_end(row, end) - row["time_s"]) for row in rows] for end in ("time_low_s", "time_high_s")]


def _end(row: Row, end: str) -> float:
    return float(row[end] if row["seeds"] >= _FEW else row["time_s"])
