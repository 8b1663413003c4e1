"""What is said of a group of runs: one flat row of means over its seeds, their intervals, and its runs inside."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpfl.reporting.groups import Group
from hpfl.reporting.intervals import arithmetic
from hpfl.reporting.runs import RunView
from hpfl.reporting.store import plain
from hpfl.reporting.summary import summarise
from hpfl.reporting.targets import Target
from hpfl.reporting.ue_spread import alone_by_seed, fate_of_ues
from hpfl.reporting.ways import Ways, ratio

_NO_MEAN: dict[str, Callable[[Sequence[Any]], Any]] = {"diverged": any, "max_staleness": max}
"""Figures of which a group has not the mean over its seeds."""
_NESTED = ("intervals", "runs", "time_ratio")
_NO_INTERVAL = (*_NO_MEAN, "num_reached")


def rows(groups: Sequence[Group], ways: Sequence[Ways] | None, target: Target | None) -> list[dict[str, Any]]:
    """One row per group; where a target is timed, with how many of its runs arrive and the ratio to the soonest."""
    soonest = min(ways, key=lambda each: each.order) if ways else None
    alone = alone_by_seed(view for group in groups for view in group.runs)
    made = [_row(group, target, alone) for group in groups]
    for row, each in zip(made, ways or (), strict=False):
        row["num_reached"] = len(each.arrived)
        row["time_ratio"] = None if soonest is None or each is soonest else _ratio(soonest, each)
    return [plain(row) for row in made]


def flat_columns(made: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The rows as columns of plain values: beside a mean the ends of its interval, `x_low` and `x_high`."""
    flat = [_flat(row) for row in made]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    plainly: dict[str, Any] = {}
    for name, value in row.items():
        if name in _NESTED:
            continue
        plainly[name] = value
        if isinstance(value, float | int) and len(row["runs"]) > 1 and name not in _NO_INTERVAL:
            plainly |= dict(
                zip((f"{name}_low", f"{name}_high"), row["intervals"].get(name, (value, value)), strict=True)
            )
    ratio_of = row["time_ratio"] or {}
    ratios = {f"time_ratio_{name}": ratio_of.get(name) for name in ("to", "mean", "low", "high", "common_seeds")}
    return plainly | {"num_runs": len(row["runs"])} | ratios


def _row(group: Group, target: Target | None, alone: Mapping[int | None, RunView]) -> dict[str, Any]:
    runs = [_of_run(view, target, alone.get(view.seed)) for view in group.runs]
    names = [name for name in runs[0] if name not in {"label", "seed"}]
    columns = {name: [run[name] for run in runs] for name in names}
    intervals = {name: _interval(values) for name, values in columns.items() if name not in _NO_MEAN}
    return {
        "label": group.label,
        "system": group.system,
        "planner": group.planner,
        "seeds": [seed for seed in group.by_seed if seed is not None],
        **{name: _together(name, values) for name, values in columns.items()},
        "num_reached": None,
        "time_ratio": None,
        "intervals": {name: ends for name, ends in intervals.items() if ends is not None},
        "runs": runs,
    }


def _of_run(view: RunView, target: Target | None, alone: RunView | None) -> dict[str, Any]:
    figures = {**summarise(view.rows, target=target), **fate_of_ues(view, alone)}
    return {"label": view.label, "seed": view.seed, **figures}


def _together(name: str, values: Sequence[Any]) -> Any:
    """The mean over seeds, unknown where one of them is; what is the same for all stays what it is."""
    if any(value is None for value in values):
        return None
    if all(value == values[0] for value in values):
        return values[0]
    return _NO_MEAN[name](values) if name in _NO_MEAN else statistics.fmean(values)


def _interval(values: Sequence[Any]) -> list[float] | None:
    """Ends of the mean's 95 % interval; None where there is none, or nothing that varies."""
    if any(value is None for value in values) or all(value == values[0] for value in values):
        return None
    of = arithmetic(values)
    return None if of is None or of.low is None or of.high is None else [of.low, of.high]


def _ratio(soonest: Ways, other: Ways) -> dict[str, Any] | None:
    found = ratio(soonest, other)
    if found is None:
        return None
    time = found.time
    return {
        "to": soonest.group.label,
        "mean": time.mean,
        "low": time.low,
        "high": time.high,
        "common_seeds": time.count,
    }
