"""What `fastest` makes of the seconds in which `full` converges: personalised accuracy of both, paired by seed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpfl.reporting.intervals import Interval, arithmetic
from hpfl.studies.study import Found, Rows
from hpfl.studies.time_to_accuracy import CONVERGED, diverged

AccuracyCourse = list[tuple[float, float]]
"""Simulated seconds and personalised accuracy of every evaluation."""


def converged_rows(found: Iterable[Found]) -> Rows:
    """One row per data set, skew and seed: both accuracies at the last evaluation of `full`.

    `lead_points` is how many points `fastest` has more; `late_points` is what the second half of its time still gave
    `full`, which says how far it has converged.
    """
    runs: dict[tuple[str, float, int], dict[str, Found]] = {}
    for part in found:
        labels = part["labels"]
        if labels.get("aim") == CONVERGED:
            runs.setdefault((labels["data"], labels["edge_skew"], labels["seed"]), {})[labels["planner"]] = part
    return [
        {"data": data, "edge_skew": skew, "seed": seed} | _pair(pair["full"], pair["fastest"])
        for (data, skew, seed), pair in sorted(runs.items())
        if {"full", "fastest"} <= pair.keys() and _curve(pair["full"])
    ]


def accuracy_bars(rows: Sequence[Mapping[str, Any]], *, wanted: float = -0.5) -> Rows:
    """For each data set and skew: the mean lead in points with its interval, which may not be below `wanted`."""
    cells: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        cells.setdefault((row["data"], row["edge_skew"]), []).append(row["lead_points"])
    return [_bar(place, arithmetic(leads), wanted) for place, leads in cells.items()]


def _bar(place: tuple[str, float], lead: Interval | None, wanted: float) -> dict[str, Any]:
    assert lead is not None
    return {
        "bar": "accuracy against full once it has converged, points",
        "data": place[0],
        "edge_skew": place[1],
        "measured": lead.mean,
        "low": lead.low,
        "high": lead.high,
        "wanted": wanted,
        "seeds": lead.count,
        "met": lead.mean >= wanted,
    }


def _pair(full: Found, fastest: Found) -> dict[str, Any]:
    theirs = _curve(full)
    end_s, reached = theirs[-1]
    ours = _at(_curve(fastest), end_s)
    return {
        "seconds": end_s,
        "full_accuracy": reached,
        "fastest_accuracy": ours,
        "lead_points": 100.0 * (ours - reached),
        "late_points": 100.0 * (reached - _at(theirs, 0.5 * end_s)),
        "diverged": diverged(fastest) and not diverged(full),
    }


def _curve(part: Found) -> AccuracyCourse:
    columns = part["rounds"]
    return [
        (seconds, accuracy)
        for seconds, accuracy in zip(columns["time_s"], columns["personalised_accuracy"], strict=True)
        if accuracy is not None
    ]


def _at(curve: AccuracyCourse, seconds: float) -> float:
    """The accuracy last measured by then; 0 before the first."""
    return next((accuracy for moment, accuracy in reversed(curve) if moment <= seconds), 0.0)
