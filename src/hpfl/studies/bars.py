"""How `fastest` fares against every other planner: ratios of times paired by seed, and the bars they are held to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpfl.reporting.intervals import Interval, geometric
from hpfl.studies.converged import accuracy_bars, converged_rows
from hpfl.studies.study import Rows
from hpfl.studies.time_to_accuracy import FIXED, LONGER, Setting, run_rows

BarCell = Mapping[int, Mapping[str, Any]]
"""Runs of one cell of the grid, by seed."""

BARS: Mapping[str, Mapping[str, float]] = {
    "mnist": {"paper": 5.0, "shpfl": 10.0, "best fixed": 1 / 1.1},
    "cifar10": {"full": 3.0, "best fixed": 1 / 1.1},
}
"""At least so many times faster, to the last target, with clock `round`."""
PLANNING_MS = 20.0


def bars(found: Sequence[Mapping[str, Any]], settings: Mapping[str, Setting]) -> Rows:
    """Every bar that is set, with what was measured (95% interval over seeds), what was wanted, and whether it is met.

    Of the parts in `found`; a bar for which nothing has been run has no row.
    """
    runs, ends = run_rows(found, settings), converged_rows(found)
    times = [_speed_bar(row) for row in comparisons(runs, settings) if row["bar"] is not None]
    return [*times, *accuracy_bars(ends), *_calm_bars(runs, ends), *_planning_bars(runs)]


def slower(versus: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for every cell of the grid where a rival was as fast as `fastest` or faster, on the mean of the seeds."""
    return [
        f"{row['data']}, clock {row['clock']}, edge skew {row['edge_skew']:g}: {row['which']} takes "
        f"{row['speedup']:.2f} times the time of `fastest`" + ("" if row["decided"] else ", and had not arrived")
        for row in versus
        if row["speedup"] <= 1.0 and row["rival"] != "best fixed"
    ]


def comparisons(runs: Sequence[Mapping[str, Any]], settings: Mapping[str, Setting]) -> Rows:
    """For every cell: each rival (the better of its broadcasts) against `fastest` that chooses its own, paired by seed.

    `speedup` above 1 says `fastest` is faster. A rival run that never arrives counts with the time it was given: the
    speed-up is then at least that, and `at_least` says so; it is not `decided` if it ended before `fastest` arrived.
    Where either run of a seed diverged before its first round there is no ratio; `seeds` counts the others, and the
    speed-up of none is 0.
    """
    return [row for data, setting in settings.items() for row in _of(runs, data, setting)]


def _of(runs: Sequence[Mapping[str, Any]], data: str, setting: Setting) -> Iterator[dict[str, Any]]:
    for clock in setting.clocks:
        for skew in setting.skews:
            here = [
                row
                for row in runs
                if (row["data"], row["clock"], row["edge_skew"], row["target"])
                == (data, clock, skew, setting.targets[-1])
            ]
            yield from _cell(here, {"data": data, "clock": clock, "edge_skew": skew, "target": setting.targets[-1]})


def _cell(here: Sequence[Mapping[str, Any]], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ours = _by_seed(here, "fastest", "auto")
    shared = [row for row in here if row["seed"] in ours and row["planner"] != "fastest"]
    rivals = {
        name: _better(shared, name) for name in dict.fromkeys(row["planner"] for row in shared) if name not in LONGER
    }
    most = max((len(cell) for name, cell in rivals.items() if name in FIXED), default=0)
    fixed = {name: cell for name, cell in rivals.items() if name in FIXED and len(cell) == most}
    for name, cell in rivals.items():
        yield place | _against(name, cell, ours, place)
    if fixed:
        best = min(fixed, key=lambda name: slowness(fixed[name]))
        yield place | _against("best fixed", fixed[best], ours, place) | {"which": best}


def _against(rival: str, theirs: BarCell, ours: BarCell, place: Mapping[str, Any]) -> dict[str, Any]:
    found = paired(theirs, ours)
    bar = BARS.get(place["data"], {}).get(rival) if place["clock"] == "round" else None
    return {
        "rival": rival,
        "which": rival,
        "broadcast": next(iter(theirs.values()))["broadcast"],
        **found,
        "bar": bar,
        "met": None if bar is None else bool(found["fastest_arrived"] and found["speedup"] >= bar),
    }


def paired(theirs: BarCell, ours: BarCell) -> dict[str, Any]:
    """How many times faster ours are, seed by seed, with the interval, and whether all arrived."""
    seeds = sorted(set(ours) & set(theirs))
    pairs = [(_seconds(theirs[seed]), _seconds(ours[seed])) for seed in seeds]
    found = geometric([slow / fast for slow, fast in pairs if slow > 0 and fast > 0]) or Interval(0.0, None, None, 0)
    return {
        "speedup": found.mean,
        "low": found.low,
        "high": found.high,
        "at_least": not all(theirs[seed]["reached"] for seed in seeds),
        "decided": all(theirs[seed]["reached"] or _seconds(theirs[seed]) >= _seconds(ours[seed]) for seed in seeds),
        "seeds": found.count,
        "fastest_arrived": all(ours[seed]["reached"] for seed in seeds),
    }


def _better(here: Sequence[Mapping[str, Any]], planner: str) -> BarCell:
    """The planner's runs with the broadcast that is faster for it, of those with which as many seeds were run."""
    cells = [_by_seed(here, planner, broadcast) for broadcast in ("scheduled", "all", "auto")]
    most = max(map(len, cells))
    return min((cell for cell in cells if cell and len(cell) == most), key=slowness, default={})


def _by_seed(here: Sequence[Mapping[str, Any]], planner: str, broadcast: str) -> BarCell:
    return {row["seed"]: row for row in here if row["planner"] == planner and row["broadcast"] == broadcast}


def slowness(cell: BarCell) -> tuple[int, float, float]:
    """Less is better: fewer runs that do not arrive, less time of those that do, and that the others lasted longer."""
    there = geometric([row["time_s"] for row in cell.values() if row["reached"]])
    lasted_s = [row["run_s"] for row in cell.values() if not row["reached"]]
    lost = geometric(lasted_s) if all(lasted_s) else None
    return len(lasted_s), there.mean if there else 0.0, -lost.mean if lost else 0.0


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["time_s"] if row["reached"] else row["run_s"])


def _speed_bar(row: Mapping[str, Any]) -> dict[str, Any]:
    rival = row["rival"] if row["rival"] == row["which"] else f"{row['rival']} ({row['which']})"
    return {
        "bar": f"times faster than {rival}",
        **{name: row[name] for name in ("data", "edge_skew", "low", "high", "seeds", "met")},
        "measured": row["speedup"],
        "wanted": row["bar"],
    }


def _calm_bars(runs: Sequence[Mapping[str, Any]], ends: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Runs of `fastest` that diverge where `full` of the same data, clock, skew and seed does not."""
    calm = {_place(row) for row in runs if row["planner"] == "full" and not row["diverged"]}
    for data in dict.fromkeys(row["data"] for row in runs):
        ours = {(_place(row), row["broadcast"]): row for row in runs if row["planner"] == "fastest"}
        here = [row for row in ours.values() if row["data"] == data and _place(row) in calm]
        late = [row for row in ends if row["data"] == data]
        if here or late:
            wild = sum(row["diverged"] for row in (*here, *late))
            yield _bar("runs that diverge where full does not", data, wild, wanted=0.0, seeds=len(here) + len(late))


def _planning_bars(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Mean planning time of a round, over all runs of `fastest`."""
    for data in dict.fromkeys(row["data"] for row in runs):
        own = (row for row in runs if row["data"] == data and row["planner"] == "fastest")
        here = {(_place(row), row["broadcast"]): row["planning_ms"] for row in own}
        if here:
            mean = sum(here.values()) / len(here)
            yield _bar("planning time of a round, ms", data, mean, wanted=PLANNING_MS, seeds=len(here))


def _bar(name: str, data: str, measured: float, *, wanted: float, seeds: int) -> dict[str, Any]:
    """A bar that is not to be exceeded; `seeds` counts runs."""
    return {
        "bar": name,
        "data": data,
        "edge_skew": None,
        "measured": measured,
        "low": None,
        "high": None,
        "wanted": wanted,
        "seeds": seeds,
        "met": measured <= wanted,
    }


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("data", "clock", "edge_skew", "seed"))
