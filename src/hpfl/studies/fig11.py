"""Figure 11: planning time of HPFL and SHPFL against the scheduled edges; and against the loss drop (CIFAR-10)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.config import Config
from hpfl.experiment import Hooks
from hpfl.planning.planners import PLANNERS as PLANNED
from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.curves import SHADES, draw_lines, name, panels, plain_log, planner_line
from hpfl.studies.problems import Posed, posed_problems
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, by_seed, distinct, rise, where
from hpfl.sweeps.parts import StudyPart

DATA = ("mnist", "cifar10")
PLANNERS = ("paper", "joint", "shpfl")
SIZES = (4, 8, 12, 16, 20)
GRID = list(product(PLANNERS, SIZES))
TIMED = ("planning_s", "latency_s", "num_scheduled")
TIMED_ROUNDS, WARM_UP = 12, 2
LINEAR = 0.9
"""The share of the variance that a straight line must explain to be called one."""
CONSTANT = 0.25
"""SHPFL's planning time is constant if over the range it changes by less than this share of its mean."""
TIMES, NEGLIGIBLE = 60.0, 0.01


def planning_times(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """Note the problems of a short run, then time every planner on each of them with every cap A, one after another.

    With rho = 1, lest the proposed rule schedule fewer than A: on CIFAR-10 it begins with one edge.
    """
    posed = posed_problems(config, device=device, data_dir=data_dir, hooks=hooks)
    if hooks.should_stop():
        return {}
    return {"timings": [row for planner in PLANNERS for size in SIZES for row in _timings(posed, planner, size)]}


def _timings(posed: Posed, planner: str, size: int) -> Iterator[dict[str, Any]]:
    for number, (problem, stream) in enumerate(posed, start=1):
        capped = replace(problem, max_edges=size, rho=1.0)
        began = time.perf_counter()
        plan = PLANNED.get(planner)(capped, {}, stream)[0]
        yield {
            "planner": planner,
            "max_edges": size,
            "round": number,
            "planning_s": time.perf_counter() - began,
            "num_scheduled": int(plan.scheduled.sum()),
            "latency_s": float(plan.round_latency_s),
        }


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """A short run whose problems are planned and timed; and the long ones whose loss drop is compared (CIFAR-10)."""
    here = [data for data in DATA if scale.has(data)]
    return [part for seed in seeds for data in here for part in _of(scale, data, seed, drops=data == here[-1])]


def _of(scale: Scale, data: str, seed: int, *, drops: bool) -> list[StudyPart]:
    short = case(scale, data, seed, rounds=TIMED_ROUNDS)
    timed = replace(short, name=f"planning-time/{short.name}", timed=True, probe=planning_times)
    return [timed, *(case(scale, data, seed, planner=planner) for planner in ("paper", "shpfl") if drops)]


def tables(found: Sequence[Found]) -> Tables:
    """`runs`: medians over the rounds; `sizes`: means over seeds; `drops`: planning time and loss drop by window."""
    timed = [_medians(part, planner, size) for part in found if "timings" in part for planner, size in GRID]
    drops = [row for part in found if "timings" not in part for row in _drops(part)]
    columns = ("planning_ms", "latency_s", "num_scheduled")
    return {"sizes": bands(timed, ("data", "planner", "max_edges"), columns), "runs": timed, "drops": drops}


def _medians(part: Found, planner: str, size: int) -> dict[str, Any]:
    rows = where(part["timings"], planner=planner, max_edges=size)[WARM_UP:]
    medians = {column: float(np.median([row[column] for row in rows])) for column in TIMED}
    place = {"data": part["labels"]["data"], "planner": planner, "max_edges": size, "seed": part["labels"]["seed"]}
    return {**place, **medians, "planning_ms": 1e3 * medians["planning_s"]}


def _drops(part: Found) -> Rows:
    """Between successive evaluations: how much the loss fell, and the median planning time of those rounds."""
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


def _against_edges(axes: Any, rows: Sequence[TableRow]) -> None:
    lines = [planner_line(where(rows, planner=planner), planner, marker="o") for planner in PLANNERS]
    draw_lines(axes, lines, "num_scheduled", "planning_ms")
    axes.set(xlabel="edges scheduled", ylabel="planning time of a round (ms)")


def _against_drop(axes: Any, rows: Sequence[TableRow]) -> None:
    for planner in ("paper", "shpfl"):
        here = [row for row in where(rows, planner=planner) if row["loss_drop"] > 0]
        axes.plot(
            [row["loss_drop"] for row in here], [row["planning_ms"] for row in here], ".", color=SHADES[planner],
            alpha=0.6, label=name(planner),
        )  # fmt: skip
    axes.set_xscale("log")
    plain_log(axes.xaxis, wide=True)
    axes.set(xlabel="loss drop between evaluations", ylabel="planning time of a round (ms)")


def statements(made: Tables) -> list[Statement]:
    """C8 of the short runs, C9 of the long ones."""
    drops = where(made["drops"], planner="paper")
    text = "{}: rank correlation of planning time and loss drop along a run"
    correlations = [
        Statement(
            claim="C9", data=data, text=text.format(name(data)), unit="correlation",
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
            claim="C8", data=data, text=f"{word}, proposed: variance of planning time that a rising line explains",
            unit="share", values=by_seed(ours, _straightness), least=LINEAR,
        ),
        Statement(
            claim="C8", data=data, text=f"{word}, SHPFL: rise of planning time with the edges, relative to its mean",
            unit="ratio", values=by_seed(theirs, _growth), least=-CONSTANT, most=CONSTANT,
        ),
        Statement(
            claim="C8", data=data, text=f"{word}: planning time of proposed over SHPFL's", unit="ratio",
            values=by_seed(both, _times), least=TIMES,
        ),
        *(
            Statement(
                claim="C8", data=data, text=f"{word}, {who}: planning time over round latency", unit="ratio",
                values=by_seed(rows, lambda rows: max(row["planning_s"] / row["latency_s"] for row in rows)),
                most=NEGLIGIBLE,
            )
            for who, rows in (("proposed", ours), ("SHPFL", theirs))
        ),
    ]  # fmt: skip


def _columns(rows: Sequence[TableRow], *names: str) -> list[list[float]]:
    return [[row[name] for row in rows] for name in names]


def _straightness(rows: Sequence[TableRow]) -> float | None:
    edges, times = _columns(rows, "num_scheduled", "planning_ms")
    if len(set(edges)) < 3 or np.ptp(times) == 0:
        return None
    correlation = float(np.corrcoef(edges, times)[0, 1])
    return correlation * abs(correlation)


def _growth(rows: Sequence[TableRow]) -> float | None:
    edges, times = _columns(rows, "num_scheduled", "planning_ms")
    risen = rise(edges, times)
    return None if risen is None else risen / float(np.mean(times))


def _times(rows: Sequence[TableRow]) -> float | None:
    means = [np.mean([row["planning_ms"] for row in where(rows, planner=planner)]) for planner in ("paper", "shpfl")]
    return float(means[0] / means[1])


def _correlation(rows: Sequence[TableRow]) -> float | None:
    times, drops = _columns(rows, "planning_ms", "loss_drop")
    from scipy.stats import spearmanr  # SciPy takes long to import

    return None if len(times) < 3 else float(spearmanr(times, drops).statistic)


STUDY = Study(
    name="fig11",
    title="Planning time of HPFL and SHPFL",
    about="Seconds spent in planning (this implementation's, on the machine named below) against how many edges are "
    "scheduled, on the same rounds with A varied and rho = 1, so that A are scheduled (`joint` has nothing to search "
    "then; at rho = 0.8 it takes some milliseconds); and, of runs side by side, against how much the loss fell.",
    parts=parts,
    tables=tables,
    draw=draw,
    claims=statements,
    shown=("sizes",),
)
