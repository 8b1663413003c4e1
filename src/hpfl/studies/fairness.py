"""Study `fairness`: how personalised accuracy is spread over the UEs at the end of a run, and how the worst fare."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.reporting.style import INK
from hpfl.studies.beyond import hpfl_case, less
from hpfl.studies.cases import Scale, case
from hpfl.studies.curves import SHADES, Line, name, panels
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import bands, distinct, where
from hpfl.sweeps.parts import StudyPart

DATA = ("mnist", "cifar10")
WHO = (
    ("hfl", "paper"),
    ("hpfl", "full"),
    ("hpfl", "paper"),
    ("hpfl", "random"),
    ("hpfl", "joint"),
    ("hpfl", "fastest"),
)
FIGURES = ("mean", "worst_decile", "median", "best_decile", "deviation", "jain")
LEVELS = tuple(range(0, 101, 2))
"""Per cent of UEs at which the distribution is written down."""
_KEYS = ("data", "system", "planner")


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """The runs of figures 3 and 4, and `fastest`."""
    grid = [(data, system, planner) for data in DATA if scale.has(data) for system, planner in WHO]
    return [
        hpfl_case(scale, data, seed, planner=planner)
        if system == "hpfl"
        else case(scale, data, seed, system=system, planner=planner)
        for seed in seeds
        for data, system, planner in grid
    ]


def tables(found: Sequence[Found]) -> Tables:
    """`means` over seeds of `runs`' figures; `differences` from HFL paired by seed; `quantiles` over UEs."""
    ended = [part for part in found if part["ues"] is not None]
    runs = [{**_labels(part), **spread_of(_accuracies(part))} for part in ended]
    levels = [
        {**_labels(part), "ues_percent": level, "personalised_accuracy": value}
        for part in ended
        for level, value in zip(LEVELS, np.percentile(_accuracies(part), LEVELS).tolist(), strict=True)
    ]
    return {
        "means": bands(runs, _KEYS, FIGURES),
        "differences": [row for data in distinct(runs, "data") for row in _from_hfl(where(runs, data=data))],
        "runs": runs,
        "quantiles": bands(levels, (*_KEYS, "ues_percent"), ("personalised_accuracy",)),
    }


def _labels(part: Found) -> TableRow:
    return {key: part["labels"][key] for key in (*_KEYS, "seed")}


def _accuracies(part: Found) -> FloatArray:
    return np.array([value for value in part["ues"]["personalised_accuracy"] if value is not None], dtype=np.float64)


def spread_of(accuracy: FloatArray) -> TableRow:
    """Means over all UEs, the worst and the best tenth; standard deviation; Jain's index, 1 where all are alike."""
    ordered, tenth = np.sort(accuracy), max(1, accuracy.size // 10)
    square = float(np.mean(accuracy**2))
    return {
        "mean": float(accuracy.mean()),
        "worst_decile": float(ordered[:tenth].mean()),
        "median": float(np.median(accuracy)),
        "best_decile": float(ordered[-tenth:].mean()),
        "deviation": float(accuracy.std()),
        "jain": float(accuracy.mean() ** 2) / square if square else 1.0,
        "ues": int(accuracy.size),
    }


def _from_hfl(runs: Rows) -> Rows:
    plain = where(runs, system="hfl")
    columns = ("mean", "worst_decile", "deviation", "jain")
    place = [(row["data"], row["planner"]) for row in where(runs, system="hpfl")]
    return [
        {"data": data, "planner": planner, **less(where(runs, system="hpfl", planner=planner), plain, columns)}
        for data, planner in dict.fromkeys(place)
    ]


def draw(made: Tables, folder: Path) -> list[Path]:
    """One row per data set: the distribution over UEs, and the worst tenth beside the mean."""
    data = distinct(made["means"], "data")
    cells = [(which, kind) for which in data for kind in ("spread", "decile")]
    titles = [
        f"{name(which)}: all UEs" if kind == "spread" else f"{name(which)}: worst tenth of UEs" for which, kind in cells
    ]

    def fill(index: int, axes: Any) -> None:
        which, kind = cells[index]
        if kind == "spread":
            _distribution(axes, where(made["quantiles"], data=which))
        else:
            _deciles(axes, where(made["means"], data=which))

    facts = ("How personalised accuracy is spread over UEs", "at the end of a run; means over seeds, 95 % intervals")
    return panels(folder / "fairness", facts, titles, fill, rows=len(data))


def _lines(rows: Rows) -> list[Line]:
    """The planners of HPFL in their colours, and HFL in ink."""
    return [
        Line(
            where(rows, system=system, planner=planner),
            f"{system.upper()}, {name(planner)}",
            INK if system == "hfl" else SHADES[planner],
            (0, (4, 1.6)) if system == "hfl" else "-",
            width={"paper": 2.6, "joint": 1.2}.get(planner, 1.7) if system == "hpfl" else 1.7,
        )
        for system, planner in WHO
        if where(rows, system=system, planner=planner)
    ]


def _distribution(axes: Any, rows: Rows) -> None:
    from matplotlib.ticker import PercentFormatter

    for line in _lines(rows):
        accuracy = [row["personalised_accuracy"] for row in line.rows]
        level = [row["ues_percent"] / 100 for row in line.rows]
        axes.plot(accuracy, level, color=line.colour, linestyle=line.dash, linewidth=line.width, label=line.label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set(xlabel="personalised test accuracy", ylabel="share of UEs with at most as much", ylim=(0, 1.02))


def _deciles(axes: Any, rows: Rows) -> None:
    from matplotlib.ticker import PercentFormatter

    lines = _lines(rows)
    for place, line in enumerate(lines):
        row = line.rows[0]
        axes.barh(place, row["worst_decile"], height=0.62, color=line.colour, alpha=0.75, linewidth=0)
        if row["worst_decile_low"] is not None:
            ends = [[row["worst_decile"] - row["worst_decile_low"]], [row["worst_decile_high"] - row["worst_decile"]]]
            axes.errorbar([row["worst_decile"]], [place], xerr=ends, color=INK, capsize=2.5, linewidth=1)
        axes.plot([row["mean"]], [place], "|", color=line.colour, markersize=11, markeredgewidth=2)
    axes.set_yticks(range(len(lines)), [line.label.replace(" (certified)", "") for line in lines])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set_xlabel("personalised accuracy (tick: of all UEs)")


STUDY = Study(
    name="fairness",
    title="Personalised accuracy over the UEs, and of the worst tenth",
    about="Every UE adapts the final model by one step on its own data and is tested on its own labels; HFL's UEs too. "
    "Jain's index is 1 where all UEs fare alike. `fastest` has four times the rounds of the others, and they are far "
    "shorter.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("means", "differences"),
)
