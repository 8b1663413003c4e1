"""Figure 11: planning time of HPFL and SHPFL against the scheduled edges; and against the loss drop (CIFAR-10)."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.curves import SHADES, draw_lines, name, panels, plain_log, planner_line
from hpfl.studies.parts import Part
from hpfl.studies.study import Found, Rows, Study, Tables
from hpfl.studies.tabulate import Row, bands, by_seed, distinct, rise, where

DATA = ("mnist", "cifar10")
PLANNERS = ("paper", "joint", "shpfl")
SIZES = (4, 8, 12, 16, 20)
TIMED_ROUNDS, WARM_UP = 12, 2
LINEAR = 0.9
"""The share of the variance that a straight line must explain to be called one."""
CONSTANT = 0.25
"""SHPFL's planning time is constant if over the range it changes by less than this share of its mean."""
TIMES, NEGLIGIBLE = 60.0, 0.01


def parts(scale: Scale, seeds: Sequence[int]) -> list[Part]:
    """Short runs of every planner with A edges at most; and the long ones whose loss drop is compared (CIFAR-10)."""
    here = [data for data in DATA if scale.has(data)]
    return [part for seed in seeds for data in here for part in _of(scale, data, seed)]


def _of(scale: Scale, data: str, seed: int) -> list[Part]:
    timed = [
        case(scale, data, seed, planner=planner, rounds=TIMED_ROUNDS, vary={"planning.max_edges": int(size)})
        for planner in PLANNERS
        for size in scale.sweep(SIZES)
    ]
    course = "cifar10" if scale.has("cifar10") else "mnist"
    return timed + (
        [case(scale, data, seed, planner=planner) for planner in ("paper", "shpfl")] if data == course else []
    )


def tables(found: Sequence[Found]) -> Tables:
    """`runs`: medians of each timed run; `sizes`: means over seeds; `drops`: planning time and loss drop by window."""
    timed = [part for part in found if len(part["rounds"]["time_s"]) == TIMED_ROUNDS]
    rows = [_timed(part) for part in timed]
    drops = [row for part in found if len(part["rounds"]["time_s"]) != TIMED_ROUNDS for row in _drops(part)]
    columns = ("planning_ms", "latency_s", "num_scheduled")
    by = ("data", "planner", "max_edges")
    return {"sizes": bands(rows, by, columns), "runs": rows, "drops": drops}


def _timed(part: Found) -> dict[str, Any]:
    columns = {name: part["rounds"][name][WARM_UP:] for name in ("planning_s", "latency_s", "num_scheduled")}
    medians = {name: float(np.median(values)) for name, values in columns.items()}
    size = part["labels"].get("max_edges", 15)
    return {**part["labels"], "max_edges": size, **medians, "planning_ms": 1e3 * medians["planning_s"]}


def _drops(part: Found) -> Rows:
    """Between successive evaluations: how much the loss fell, and the mean planning time of those rounds."""
    losses = part["rounds"]["meta_loss"]
    places = [index for index, loss in enumerate(losses) if loss is not None]
    return [
        {
            **part["labels"],
            "round": after + 1,
            "loss_drop": losses[before] - losses[after],
            "planning_ms": 1e3 * float(np.median(part["rounds"]["planning_s"][before + 1 : after + 1])),
            "num_scheduled": float(np.mean(part["rounds"]["num_scheduled"][before + 1 : after + 1])),
        }
        for before, after in pairwise(places)
    ]


def draw(made: Tables, folder: Path) -> list[Path]:
    """Planning time against edges for each data set, and against the loss drop."""
    data = distinct(made["sizes"], "data")
    course = distinct(made["drops"], "data")[:1]
    titles = [name(which) for which in data] + [f"{name(which)}, by loss drop" for which in course]

    def fill(index: int, axes: Any) -> None:
        axes.set_yscale("log")
        plain_log(axes.yaxis)
        if index < len(data):
            _against_edges(axes, where(made["sizes"], data=data[index]))
        else:
            _against_drop(axes, made["drops"])

    facts = ("What planning costs", "median over the rounds of a run, mean over seeds, band: 95 % interval")
    return panels(folder / "fig11", facts, titles, fill)


def _against_edges(axes: Any, rows: Sequence[Row]) -> None:
    lines = [planner_line(where(rows, planner=planner), planner, marker="o") for planner in PLANNERS]
    draw_lines(axes, lines, "num_scheduled", "planning_ms")
    axes.set(xlabel="edges scheduled", ylabel="planning time of a round (ms)")


def _against_drop(axes: Any, rows: Sequence[Row]) -> None:
    for planner in ("paper", "shpfl"):
        here = [row for row in where(rows, planner=planner) if row["loss_drop"] > 0]
        axes.plot(
            [row["loss_drop"] for row in here], [row["planning_ms"] for row in here], ".", color=SHADES[planner],
            alpha=0.6, label=name(planner),
        )  # fmt: skip
    axes.set_xscale("log")
    plain_log(axes.xaxis)
    axes.set(xlabel="loss drop between evaluations", ylabel="planning time of a round (ms)")


def statements(made: Tables) -> list[Statement]:
    """C8 of the short runs, C9 of the long ones."""
    drops = where(made["drops"], planner="paper")
    text = "{}: rank correlation of planning time and loss drop along a run"
    correlations = [
        Statement(
            claim="C9", text=text.format(name(data)), unit="correlation",
            values=by_seed(where(drops, data=data), _correlation), least=0.0,
        )
        for data in distinct(drops, "data")
    ]  # fmt: skip
    return [statement for data in distinct(made["runs"], "data") for statement in _costs(made, data)] + correlations


def _costs(made: Tables, data: str) -> list[Statement]:
    ours, theirs = (where(made["runs"], data=data, planner=planner) for planner in ("paper", "shpfl"))
    both = where(made["runs"], data=data)
    word = name(data)
    return [
        Statement(
            claim="C8", text=f"{word}, proposed: variance of planning time that a rising line explains", unit="share",
            values=by_seed(ours, _straightness), least=LINEAR,
        ),
        Statement(
            claim="C8", text=f"{word}, SHPFL: rise of planning time with the edges, relative to its mean", unit="ratio",
            values=by_seed(theirs, _growth), least=-CONSTANT, most=CONSTANT,
        ),
        Statement(
            claim="C8", text=f"{word}: planning time of proposed over SHPFL's", unit="ratio",
            values=by_seed(both, _times), least=TIMES,
        ),
        Statement(
            claim="C8", text=f"{word}, proposed: planning time over round latency", unit="ratio",
            values=by_seed(ours, lambda rows: max(row["planning_s"] / row["latency_s"] for row in rows)),
            most=NEGLIGIBLE,
        ),
    ]  # fmt: skip


def _columns(rows: Sequence[Row], *names: str) -> list[list[float]]:
    return [[row[name] for row in rows] for name in names]


def _straightness(rows: Sequence[Row]) -> float | None:
    edges, times = _columns(rows, "num_scheduled", "planning_ms")
    if len(set(edges)) < 3 or np.ptp(times) == 0:
        return None
    correlation = float(np.corrcoef(edges, times)[0, 1])
    return correlation * abs(correlation)


def _growth(rows: Sequence[Row]) -> float | None:
    edges, times = _columns(rows, "num_scheduled", "planning_ms")
    risen = rise(edges, times)
    return None if risen is None else risen / float(np.mean(times))


def _times(rows: Sequence[Row]) -> float | None:
    means = [np.mean([row["planning_ms"] for row in where(rows, planner=planner)]) for planner in ("paper", "shpfl")]
    return float(means[0] / means[1])


def _correlation(rows: Sequence[Row]) -> float | None:
    times, drops = _columns(rows, "planning_ms", "loss_drop")
    return None if len(times) < 3 else float(spearmanr(times, drops).statistic)


STUDY = Study(
    name="fig11",
    title="Planning time of HPFL and SHPFL",
    about="Seconds spent in planning (this implementation's, on the machine named below) against how many edges are "
    "scheduled, A being varied; and against how much the loss fell meanwhile.",
    parts=parts,
    tables=tables,
    draw=draw,
    claims=statements,
    shown=("sizes",),
)
