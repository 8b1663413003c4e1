"""The pictures of study `methods`: accuracies, seconds to a target, and how the worst fare."""

import math
from pathlib import Path
from typing import Any

from hpfl.reporting.style import BLUE, MUTED
from hpfl.studies.curves import name, panels, plain_log
from hpfl.studies.study import Rows, Tables
from hpfl.studies.tabulate import distinct, where

_LOOKS = {"full": (MUTED, "o", "none"), "fastest": (BLUE, "o", BLUE)}
_SHIFT = {"full": -0.15, "fastest": 0.15}


def draw(made: Tables, folder: Path) -> list[Path]:
    """Three figures: final accuracy, seconds to the target, and the worst tenth beside the mean."""
    rows = made["accuracies"]
    if not rows:
        return []
    places = list(dict.fromkeys((row["data"], row["partition"]) for row in rows))
    titles = [f"{name(data)}, {partition}" for data, partition in places]
    lines = len(distinct(rows, "data"))

    def accuracies(index: int, axes: Any) -> None:
        _by_method(axes, _of(rows, places[index]), "accuracy", "personalised accuracy at the end")
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, -0.02), min(high, 1.02))

    def seconds(index: int, axes: Any) -> None:
        every = _of(made["targets"], places[index])
        there = [row if row["reached"] == row["seeds"] else {**row, "seconds": None} for row in every]
        _by_method(axes, there, "seconds", "simulated seconds to the target", math.inf)
        if any(row["seconds"] is not None for row in there):
            axes.set_xscale("log")
            plain_log(axes.xaxis)
        else:
            axes.set_xticks([])

    def fairness(index: int, axes: Any) -> None:
        _worst(axes, _of(rows, places[index]))

    who = "full: all edges, fastest: those it chooses"
    means = f"means over seeds with 95 % intervals; {who}"
    without = f"means over seeds; no mark where one of them does not arrive; {who}"
    ends = f"from the worst tenth of UEs to the mean of all; {who}"
    return [
        *panels(folder / "methods", ("Accuracy of the methods", means), titles, accuracies, rows=lines),
        *panels(folder / "seconds", ("Seconds to what FedAvg ends with", without), titles, seconds, rows=lines),
        *panels(folder / "fairness", ("How the worst off fare", ends), titles, fairness, rows=lines),
    ]


def _of(rows: Rows, place: tuple[str, str]) -> Rows:
    return where(rows, data=place[0], partition=place[1])


def _by_method(axes: Any, rows: Rows, column: str, words: str, missing: float = 0.0) -> None:
    """A mark for each method and planner, in the order of `fastest`; `missing` stands where there is no value."""
    order = _order(rows, column, missing)
    for planner, (shade, marker, face) in _LOOKS.items():
        here = [row for row in where(rows, planner=planner) if row[column] is not None]
        ends = [[_end(row, column, end) for row in here] for end in ("low", "high")]
        axes.errorbar(
            [row[column] for row in here],
            [order.index(row["method"]) + _SHIFT[planner] for row in here],
            xerr=ends, color=shade, marker=marker, markerfacecolor=face, markersize=4, linestyle="none", capsize=2,
            label=planner,
        )  # fmt: skip
    _lines(axes, order)
    axes.set_xlabel(words)


def _lines(axes: Any, order: list[str]) -> None:
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_ylim(-0.6, len(order) - 0.4)


def _order(rows: Rows, column: str, missing: float = 0.0) -> list[str]:
    """Methods from the least to the greatest, by `fastest` where it was run; `missing` where there is no value."""
    values = {
        row["method"]: missing if row[column] is None else row[column]
        for planner in ("full", "fastest")
        for row in where(rows, planner=planner)
    }
    return sorted(values, key=lambda method: values[method])


def _end(row: dict[str, Any], column: str, end: str) -> float:
    found = row.get(f"{column}_{end}")
    return 0.0 if found is None else abs(found - row[column])


def _worst(axes: Any, rows: Rows) -> None:
    """A line for each method and planner, from the mean of its worst tenth to that of all."""
    order = _order(rows, "worst_tenth")
    for planner, (shade, marker, face) in _LOOKS.items():
        for row in where(rows, planner=planner):
            place = order.index(row["method"]) + _SHIFT[planner]
            axes.plot([row["worst_tenth"], row["accuracy"]], [place, place], color=shade, linewidth=1)
            axes.plot(row["worst_tenth"], place, marker, color=shade, markerfacecolor=face, markersize=4)
            axes.plot(row["accuracy"], place, "|", color=shade, markersize=6)
        axes.plot([], [], color=shade, marker=marker, markerfacecolor=face, markersize=4, label=planner)
    _lines(axes, order)
    axes.set_xlabel("accuracy, from the worst tenth to the mean")
