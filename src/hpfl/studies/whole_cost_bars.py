"""The bars of `whole-cost`: what was wanted of `fastest` with everything charged, and what was measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpfl.reporting.intervals import Interval, arithmetic
from hpfl.studies.study import Rows, TableRow
from hpfl.studies.tabulate import where
from hpfl.studies.whole_cost_tables import BEST_FIXED
from hpfl.studies.whole_cost_ways import OFF_BEFORE, OURS, PRICED, PUBLISHED

SECONDS: Mapping[tuple[str, str], float] = {
    ("mnist", "skew-0"): 1.2,
    ("mnist", "skew-1"): 2.5,
    ("cifar10", "skew-0"): 6.0,
    ("cifar10", "skew-1"): 12.0,
}
"""Seconds to the target, at most."""
_MANY, _ONE = ("paper+p4", "joint", "full", "shpfl"), ("round-robin", "random-1")
TIMES: Mapping[tuple[str, str], Mapping[str, float]] = {
    (data, place): {
        PUBLISHED: published,
        **dict.fromkeys(_MANY, 2.5),
        **({} if place == "skew-0" else {"full": 1.5, "joint": 1.5}),
        **dict.fromkeys(_ONE, 1.1 if place == "skew-0" else 1.25),
    }
    for data, published in (("mnist", 120.0), ("cifar10", 40.0))
    for place in ("skew-0", "skew-1")
}
"""Times faster than each rival, at least."""
SLOWER_THAN_FIXED = 1.1
JOULES_OF_ONE_EDGE = 3.0
PRICED_JOULES, PRICED_SECONDS = 2.0, 1.5
POINTS = -0.5
PLANNING_MS = 20.0


def bars(every: Rows, against: Rows, ends: Rows) -> Rows:
    """Every bar for which something was run: measured with its 95% interval, wanted, and whether it is met."""
    return [
        *_seconds(every),
        *_times(against),
        *_joules(against),
        *_fixed(against),
        *_accuracy(ends),
        *_priced(every),
        *_off(against),
        *_planning(every),
    ]


def _bar(place: Mapping[str, Any], name: str, wanted: str, found: Mapping[str, Any], *, met: bool) -> TableRow:
    return {
        "bar": name,
        "data": place["data"],
        "place": place["place"],
        "measured": found["measured"],
        "low": found.get("low"),
        "high": found.get("high"),
        "at_least": bool(found.get("at_least")),
        "wanted": wanted,
        "seeds": found.get("seeds"),
        "met": met,
    }


def _seconds(every: Rows) -> Iterator[TableRow]:
    for row in where(every, contender=OURS):
        most = SECONDS.get((row["data"], row["place"]))
        if most is not None:
            ends = {"low": row["time_low_s"], "high": row["time_high_s"], "seeds": row["seeds"]}
            met = row["reached"] == row["seeds"] and row["time_s"] <= most
            yield _bar(row, "seconds to the target", f"at most {most:g}", {"measured": row["time_s"], **ends}, met=met)


def _found(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"measured": row["speedup"], **{name: row[name] for name in ("low", "high", "at_least", "seeds")}}


def _times(against: Rows) -> Iterator[TableRow]:
    for row in against:
        least = TIMES.get((row["data"], row["place"]), {}).get(row["rival"]) if row["group"] != "fixed" else None
        if least is not None:
            met = row["fastest_arrived"] and row["speedup"] >= least
            yield _bar(row, f"times faster than {row['rival']}", f"at least {least:g}", _found(row), met=met)


def _joules(against: Rows) -> Iterator[TableRow]:
    for row in against:
        if row["group"] == "rivals" and row["rival"] in _ONE and row["joules"] is not None:
            found = {"measured": row["joules"], "seeds": row["seeds"]}
            met = row["joules"] <= JOULES_OF_ONE_EDGE
            yield _bar(row, f"joules over {row['rival']}'s", f"at most {JOULES_OF_ONE_EDGE:g}", found, met=met)


def _fixed(against: Rows) -> Iterator[TableRow]:
    """How many times slower than the best fixed choice in hindsight; where none arrived in its time, faster than it."""
    for row in where(against, rival=BEST_FIXED):
        low, high = ((1 / row[end] if row[end] else None) for end in ("high", "low"))
        measured = 1 / row["speedup"] if row["speedup"] else float("nan")
        met = row["fastest_arrived"] and row["decided"] and measured <= SLOWER_THAN_FIXED
        found = {"measured": measured, "low": low, "high": high, "seeds": row["seeds"]}
        name = f"times the seconds of the best of {row['choices']} fixed choices ({row['which']})"
        yield _bar(row, name, f"at most {SLOWER_THAN_FIXED:g}", found, met=met)


def _accuracy(ends: Rows) -> Iterator[TableRow]:
    for place in dict.fromkeys((row["data"], row["place"]) for row in ends):
        here = where(ends, data=place[0], place=place[1])
        lead = arithmetic([row["lead_points"] for row in here])
        assert lead is not None
        name = "points more than full once it has converged"
        yield _bar(here[0], name, f"at least {POINTS:g}", _interval(lead), met=lead.mean >= POINTS)


def _interval(found: Interval) -> dict[str, Any]:
    return {"measured": found.mean, "low": found.low, "high": found.high, "seeds": found.count}


def _priced(every: Rows) -> Iterator[TableRow]:
    """Joules with a price on them, over one random edge's, and what the price costs in seconds."""
    for priced in where(every, contender=PRICED):
        here = where(every, data=priced["data"], place=priced["place"])
        one, ours = (_cell(here, group, name) for group, name in (("rivals", "random-1"), ("ours", OURS)))
        yield from _ratio(priced, one, "energy_j", ("priced joules over random-1's", PRICED_JOULES))
        yield from _ratio(priced, ours, "time_s", ("seconds with priced joules over those without", PRICED_SECONDS))


def _cell(here: Iterable[TableRow], group: str, name: str) -> TableRow | None:
    return next((row for row in here if (row["group"], row["contender"]) == (group, name)), None)


def _ratio(row: TableRow, other: TableRow | None, column: str, bar: tuple[str, float]) -> Iterator[TableRow]:
    if other is not None and row[column] and other[column]:
        measured = row[column] / other[column]
        met = row["reached"] == row["seeds"] and measured <= bar[1]
        yield _bar(row, bar[0], f"at most {bar[1]:g}", {"measured": measured, "seeds": row["seeds"]}, met=met)


def _off(against: Rows) -> Iterator[TableRow]:
    for row in where(against, rival=OFF_BEFORE):
        met = row["fastest_arrived"] and row["speedup"] >= 1.0
        yield _bar(row, "all off: times faster than the version before", "at least 1", _found(row), met=met)


def _planning(every: Rows) -> Iterator[TableRow]:
    """Mean planning time of `fastest` where the network is 20 x 10, runs side by side included."""
    here = [row for row in every if row["contender"] == OURS and (row["data"], row["place"]) in SECONDS]
    for row in here:
        found: Mapping[str, Any] = {"measured": row["planning_ms"], "seeds": row["seeds"]}
        met = row["planning_ms"] <= PLANNING_MS
        yield _bar(row, "planning time of a round, ms", f"at most {PLANNING_MS:g}", found, met=met)


def missed(made: Sequence[TableRow]) -> list[str]:
    """A line for every bar that is not met."""
    return [
        f"Missed: {row['data']}, {row['place']}: {row['bar']}: {row['measured']:.3g}, wanted {row['wanted']}."
        for row in made
        if not row["met"] and row["measured"] is not None
    ]
