"""The pictures of study `methods`: accuracies, seconds to a target, and how the worst fare."""

from collections.abc import Sequence
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

    def seconds(index: int, axes: Any) -> None:
        there = [row for row in _of(made["targets"], places[index]) if row["reached"] == row["seeds"]]
        _by_method(axes, there, "seconds", "simulated seconds to the target")
        axes.set_xscale("log")
        plain_log(axes.xaxis)

    def fairness(index: int, axes: Any) -> None:
        _worst(axes, _of(rows, places[index]))

    beside = "means over seeds with 95 % intervals; full: all edges, fastest: those it chooses"
    return [
        *panels(folder / "methods", ("Accuracy of the methods", beside), titles, accuracies, rows=lines),
        *panels(folder / "seconds", ("Seconds to what FedAvg ends with", beside), titles, seconds, rows=lines),
        *panels(folder / "fairness", ("The worst tenth of UEs beside the mean", beside), titles, fairness, rows=lines),
    ]


def _of(rows: Rows, place: tuple[str, str]) -> Rows:
    return where(rows, data=place[0], partition=place[1])


def _by_method(axes: Any, rows: Rows, column: str, words: str) -> None:
    """A mark for each method and planner, the best of `fastest` on top."""
    order = _order(rows, column)
    for planner, (shade, marker, face) in _LOOKS.items():
        here = [row for row in where(rows, planner=planner) if row[column] is not None]
        ends = [[_end(row, column, end) for row in here] for end in ("low", "high")]
        axes.errorbar(
            [row[column] for row in here],
            [order.index(row["method"]) + _SHIFT[planner] for row in here],
            xerr=ends, color=shade, marker=marker, markerfacecolor=face, markersize=4, linestyle="none", capsize=2,
            label=planner,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_xlabel(words)


def _order(rows: Rows, column: str) -> list[str]:
    """Methods from the least to the greatest, by `fastest` where it was run."""
    values = {
        row["method"]: row[column] or 0.0 for planner in ("full", "fastest") for row in where(rows, planner=planner)
    }
    return sorted(values, key=lambda method: values[method])


def _end(row: dict[str, Any], column: str, end: str) -> float:
    found = row.get(f"{column}_{end}")
    return 0.0 if found is None else abs(found - row[column])


def _worst(axes: Any, rows: Rows) -> None:
    """The mean of the worst tenth against that of all; names beside the marks of `fastest`."""
    for planner, (shade, marker, face) in _LOOKS.items():
        here = where(rows, planner=planner)
        across, up = _values(here, "accuracy"), _values(here, "worst_tenth")
        axes.plot(across, up, marker, color=shade, markerfacecolor=face, markersize=4, label=planner)
    for row in where(rows, planner="fastest"):
        axes.annotate(row["method"], (row["accuracy"], row["worst_tenth"]), fontsize=5, xytext=(3, 2),
                      textcoords="offset points")  # fmt: skip
    axes.set(xlabel="mean accuracy", ylabel="of the worst tenth")


def _values(rows: Rows, column: str) -> Sequence[float]:
    return [row[column] for row in rows]
