"""How `fastest` fares against every other planner: ratios of times paired by seed, and the bars they are held to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpfl.studies.intervals import Interval, geometric
from hpfl.studies.time_to_accuracy import FIXED, Rows, Setting

Cell = Mapping[int, Mapping[str, Any]]
"""Runs of one cell of the grid, by seed."""

BARS: Mapping[str, Mapping[str, float]] = {
    "mnist": {"paper": 5.0, "shpfl": 10.0, "best fixed": 1 / 1.1},
    "cifar10": {"full": 3.0, "best fixed": 1 / 1.1},
}
"""At least so many times faster, to the last target, with clock `round`."""


def comparisons(runs: Sequence[Mapping[str, Any]], settings: Mapping[str, Setting]) -> Rows:
    """For every cell: each rival (the better of its broadcasts) against `fastest` that chooses its own, paired by seed.

    `speedup` above 1 says `fastest` is faster. A rival run that never arrives counts with the time it was given: the
    speed-up is then at least that, and `at_least` says so.
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
    rivals = {name: _better(here, name) for name in dict.fromkeys(row["planner"] for row in here) if name != "fastest"}
    rivals = {name: cell for name, cell in rivals.items() if cell}
    fixed = {name: cell for name, cell in rivals.items() if name in FIXED}
    if not ours:
        return
    for name, cell in rivals.items():
        yield place | _against(name, cell, ours, place)
    if fixed:
        best = min(fixed, key=lambda name: _time(fixed[name]))
        yield place | _against("best fixed", fixed[best], ours, place) | {"which": best}


def _against(rival: str, theirs: Cell, ours: Cell, place: Mapping[str, Any]) -> dict[str, Any]:
    seeds = sorted(set(ours) & set(theirs))
    ratios = [_seconds(theirs[seed]) / _seconds(ours[seed]) for seed in seeds]
    found = geometric(ratios) or Interval(float("nan"), None, None, 0)
    bar = BARS.get(place["data"], {}).get(rival) if place["clock"] == "round" else None
    arrived = all(ours[seed]["reached"] for seed in seeds)
    return {
        "rival": rival,
        "which": rival,
        "broadcast": next(iter(theirs.values()))["broadcast"],
        "speedup": found.mean,
        "low": found.low,
        "high": found.high,
        "at_least": not all(theirs[seed]["reached"] for seed in seeds),
        "seeds": len(seeds),
        "fastest_arrived": arrived,
        "bar": bar,
        "met": None if bar is None else bool(arrived and found.mean >= bar),
    }


def _better(here: Sequence[Mapping[str, Any]], planner: str) -> Cell:
    """The planner's runs with the broadcast that is faster for it."""
    cells = [_by_seed(here, planner, broadcast) for broadcast in ("scheduled", "all", "auto")]
    return min((cell for cell in cells if cell), key=_time, default={})


def _by_seed(here: Sequence[Mapping[str, Any]], planner: str, broadcast: str) -> Cell:
    return {row["seed"]: row for row in here if row["planner"] == planner and row["broadcast"] == broadcast}


def _time(cell: Cell) -> float:
    found = geometric([_seconds(row) for row in cell.values()])
    assert found is not None
    late = sum(not row["reached"] for row in cell.values())
    return found.mean * (1e6 if late else 1.0)


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["time_s"] if row["reached"] else row["run_s"])
