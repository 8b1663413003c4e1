"""The tables of study `methods`: accuracies with intervals and ranks, seconds and joules to a target, choices made."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting.intervals import arithmetic
from hpfl.reporting.summary import spread_over_ues, time_to_target
from hpfl.studies.study import Found, Rows, TableRow, Tables
from hpfl.studies.tabulate import bands, distinct, where

CELL = ("data", "partition", "planner")
FIGURES = ("accuracy", "best_accuracy", "std", "worst_tenth", "worse_off", "newcomers", "best_round", "time_s",
           "energy_j", "uplink_bits")  # fmt: skip
WAYS = ("seconds", "joules", "bits")
ALONE, PLAIN = "local", "fedavg"
POINT = 0.01
"""The target lies so far below what `fedavg` ends with under `full`."""


def tables(found: Sequence[Found]) -> Tables:
    """`ranks` of methods, `accuracies` and ways to the `targets` by cell, `choices` of steps, and all `runs`."""
    runs = _with_worse_off([_run(part) for part in found if part["labels"]["group"] == "judged"], found)
    means = bands(runs, (*CELL, "method"), FIGURES)
    ranked = [row for cell in _cells(means) for row in _ranked(where(means, **cell))]
    aims = {_key(cell): _target(means, cell) for cell in _cells(means)}
    judged = [part for part in found if part["labels"]["group"] == "judged"]
    known = [row for row in (_way(part, aims) for part in judged) if row["target"] is not None]
    return {
        "ranks": _ranks(ranked),
        "accuracies": ranked,
        "targets": [row for cell in _cells(known) for row in _ways(where(known, **cell))],
        "choices": _choices(found),
        "runs": runs,
        "ways": known,
    }


def chosen_steps(found: Sequence[Found], data: str, tried: Mapping[str, int]) -> dict[str, float]:
    """Each method's best step on a data set, once as many have been `tried` as are to be."""
    rows = where(_choices(found), data=data)
    whole = {row["method"]: row for row in rows if row["tried"] >= tried.get(row["method"], 1)}
    return {name: row["step"] for name, row in whole.items()}


def _choices(found: Sequence[Found]) -> Rows:
    """The step of greatest final accuracy of each data set and method; of a run that diverged it is 0."""
    rows = [
        {**part["labels"], "accuracy": _accuracy(part)} for part in found if part["labels"]["group"] == "development"
    ]
    out = []
    for data in distinct(rows, "data"):
        for method in distinct(where(rows, data=data), "method"):
            own = where(rows, data=data, method=method)
            best = max(own, key=lambda row: row["accuracy"])
            by_step = {f"at_{row['step']:g}": row["accuracy"] for row in sorted(own, key=lambda row: row["step"])}
            steps = " ".join(f"{name.removeprefix('at_')}: {value:.3f}" for name, value in by_step.items())
            about = {"data": data, "method": method, "step": best["step"], "tried": len(own)}
            out.append({**about, "accuracy": best["accuracy"], "accuracies": steps})
    return out


def _accuracy(part: Found) -> float:
    return 0.0 if part["ues"] is None else float(np.nanmean(_of_ues(part, newcomers=False)))


def _of_ues(part: Found, *, newcomers: bool) -> FloatArray:
    """The accuracies of the UEs that train, or of those that do not."""
    every = np.array(part["ues"]["personalised_accuracy"], dtype=np.float64)
    new = np.isin(np.arange(every.size), part.get("newcomers", []))
    return np.asarray(every[new == newcomers])


def _run(part: Found) -> TableRow:
    """One run; of one that diverged, accuracies are 0."""
    labels, rounds = part["labels"], part["rounds"]
    told = [value for value in rounds["personalised_accuracy"] if value is not None]
    best = max(told, default=0.0)
    best_round = next((n + 1 for n, value in enumerate(rounds["personalised_accuracy"]) if value == best), None)
    own = np.zeros(1) if part["ues"] is None else _of_ues(part, newcomers=False)
    new = np.zeros(0) if part["ues"] is None else _of_ues(part, newcomers=True)
    spread = spread_over_ues({"personalised_accuracy": own})
    return {
        **{key: labels[key] for key in (*CELL, "method", "step", "seed")},
        "accuracy": float(np.nanmean(own)),
        "best_accuracy": best,
        "best_round": best_round,
        "std": spread["final_personalised_accuracy_std"],
        "worst_tenth": spread["final_personalised_accuracy_worst_tenth"],
        "newcomers": float(np.nanmean(new)) if new.size else None,
        "time_s": rounds["time_s"][-1] if rounds["time_s"] else None,
        "energy_j": sum(rounds["energy_j"]),
        "uplink_bits": sum(rounds["uplink_bits"]),
        "diverged": bool(part["diverged"]),
    }


def _with_worse_off(runs: Rows, found: Sequence[Found]) -> Rows:
    """With the share of UEs that `local` serves better, on the same data and seed, with the same planner."""
    by_run = {
        (*_key(part["labels"]), part["labels"]["seed"], part["labels"]["method"]): part
        for part in found
        if part["labels"]["group"] == "judged" and part["ues"] is not None
    }
    return [{**row, "worse_off": _worse_off(by_run, row)} for row in runs]


def _worse_off(by_run: Mapping[tuple[Any, ...], Found], row: TableRow) -> float | None:
    place = (*_key(row), row["seed"])
    ours, alone = by_run.get((*place, row["method"])), by_run.get((*place, ALONE))
    if ours is None or alone is None or row["method"] == ALONE:
        return None
    return float((_of_ues(ours, newcomers=False) < _of_ues(alone, newcomers=False)).mean())


def _cells(rows: Rows) -> list[dict[str, Any]]:
    return [dict(zip(CELL, key, strict=True)) for key in dict.fromkeys(_key(row) for row in rows)]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in CELL)


def _ranked(rows: Rows) -> Rows:
    """A cell's methods, the best first."""
    order = sorted(rows, key=lambda row: -row["accuracy"])
    return [{**{key: row[key] for key in CELL}, "rank": number, **row} for number, row in enumerate(order, 1)]


def _ranks(ranked: Rows) -> Rows:
    """Each method's mean rank over the cells of either planner, the best first."""
    out = []
    for planner in distinct(ranked, "planner"):
        here = where(ranked, planner=planner)
        for method in distinct(here, "method"):
            own = where(here, method=method)
            ranks = [row["rank"] for row in own]
            out.append(
                {
                    "planner": planner,
                    "method": method,
                    "mean_rank": sum(ranks) / len(ranks),
                    "best_rank": min(ranks),
                    "worst_rank": max(ranks),
                    "accuracy": sum(row["accuracy"] for row in own) / len(own),
                    "worst_tenth": sum(row["worst_tenth"] for row in own) / len(own),
                    "cells": len(own),
                }
            )
    return sorted(out, key=lambda row: (row["planner"], row["mean_rank"]))


def _target(means: Rows, cell: Mapping[str, Any]) -> float | None:
    """A point less than `fedavg` ends with on the data, under `full` where it was run."""
    place = {"data": cell["data"], "partition": cell["partition"], "method": PLAIN}
    ends = {row["planner"]: row["accuracy"] for row in where(means, **place)}
    end = ends.get("full", ends.get(str(cell["planner"])))
    return None if end is None else round(end - POINT, 3)


def _way(part: Found, aims: Mapping[tuple[Any, ...], float | None]) -> TableRow:
    """What it took a run to reach its cell's target; None where it did not."""
    labels, rounds = part["labels"], part["rounds"]
    aim = aims[_key(labels)]
    names = ("time_s", "personalised_accuracy")
    rows = [
        {"round": number, **dict(zip(names, values, strict=True))}
        for number, values in enumerate(zip(*(rounds[name] for name in names), strict=True), 1)
    ]
    there = None if aim is None else time_to_target(rows, aim)
    return {
        **{key: labels[key] for key in (*CELL, "method", "seed")},
        "target": aim,
        "seconds": there.time_s if there else None,
        "joules": sum(rounds["energy_j"][: there.round]) if there else None,
        "bits": sum(rounds["uplink_bits"][: there.round]) if there else None,
    }


def _ways(rows: Rows) -> Rows:
    """A cell's methods by what they take to the target, the quickest first; those that never arrive last."""
    out = []
    for method in distinct(rows, "method"):
        own = where(rows, method=method)
        arrived = [row for row in own if row["seconds"] is not None]
        means = {name: found.mean if (found := arithmetic([row[name] for row in arrived])) else None for name in WAYS}
        about = {key: own[0][key] for key in CELL} | {"target": own[0]["target"], "method": method}
        out.append({**about, "reached": len(arrived), "seeds": len(own), **means})
    return sorted(out, key=lambda row: (-row["reached"], row["seconds"] or 0.0))


def notes(made: Tables) -> list[str]:
    """Who wins where: by final accuracy, by its worst tenth, and by the seconds and joules to the target."""
    lines = []
    for planner in distinct(made["ranks"], "planner"):
        best = where(made["ranks"], planner=planner)[:3]
        told = ", ".join(f"`{row['method']}` ({row['mean_rank']:.1f})" for row in best)
        lines.append(f"With `{planner}` the best mean ranks by final accuracy are those of {told}.")
    for cell in _cells(made["accuracies"]):
        rows, ways = where(made["accuracies"], **cell), where(made["targets"], **cell)
        fair = max(rows, key=lambda row: row["worst_tenth"])
        quick = [row for row in ways if row["reached"] == row["seeds"]]
        said = f"{cell['data']}, {cell['partition']}, `{cell['planner']}`: `{rows[0]['method']}` ends best with "
        said += f"{100 * rows[0]['accuracy']:.1f} %; the worst tenth is best with `{fair['method']}` "
        said += f"({100 * fair['worst_tenth']:.1f} %)"
        if quick:
            sparing = min(quick, key=lambda row: row["joules"])
            said += (
                f"; `{quick[0]['method']}` is first at {100 * quick[0]['target']:.1f} % ({quick[0]['seconds']:.3g} s)"
            )
            said += f", `{sparing['method']}` with the fewest joules ({sparing['joules']:.3g} J)"
        lines.append(f"{said}.")
    return lines
