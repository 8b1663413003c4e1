"""Figure 8: average latency and importance of a round at convergence, against rho (MNIST)."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.studies.cases import Scale, case
from hpfl.studies.claims import Statement
from hpfl.studies.curves import draw_lines, name, panels, planner_line
from hpfl.studies.study import Found, Study, Tables
from hpfl.studies.tabulate import bands, by_seed, distinct, finals, rise, where
from hpfl.sweeps.parts import StudyPart

PLANNERS = ("full", "random", "paper", "joint")
RHOS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
QUANTITIES = {"latency_s": "latency", "importance": "importance"}
FLAT = 0.05
"""A quantity is flat that changes by less than this share of its mean over the whole range of rho."""


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """Every planner at every rho, the blind ones included: that they are flat is measured, not assumed."""
    grid = [(planner, rho) for planner in PLANNERS for rho in scale.sweep(RHOS)]
    return [
        case(scale, "mnist", seed, planner=planner, vary={"planning.rho": rho})
        for seed in seeds
        for planner, rho in grid
    ]


def tables(found: Sequence[Found]) -> Tables:
    """`finals` (each run's averages over its last tenth) and `means` (over seeds)."""
    rows = finals(found, (*QUANTITIES, "num_scheduled", "personalised_accuracy"))
    return {"means": bands(rows, ("data", "planner", "rho"), (*QUANTITIES, "num_scheduled")), "finals": rows}


def draw(made: Tables, folder: Path) -> list[Path]:
    """Latency, importance and number of edges against rho."""
    columns = (*QUANTITIES, "num_scheduled")

    def fill(index: int, axes: Any) -> None:
        lines = [planner_line(where(made["means"], planner=planner), planner, marker="o") for planner in PLANNERS]
        draw_lines(axes, lines, "rho", columns[index])
        axes.set_xlabel("rho, weight of importance against latency")
        axes.set_ylim(bottom=0)

    facts = ("Latency and importance at convergence against rho", "means over the last tenth of rounds and over seeds")
    return panels(folder / "fig8", facts, ["Latency", "Importance", "Edges"], fill)


def statements(made: Tables) -> list[Statement]:
    """C6: full and random flat, the proposed rising."""
    return [
        Statement(
            claim="C6", text=f"{name(planner)}: {words}, rise over the range of rho relative to its mean", unit="ratio",
            values=by_seed(where(made["finals"], planner=planner), _relative(column)),
            least=0.0 if planner == "paper" else -FLAT, most=math.inf if planner == "paper" else FLAT,
        )
        for planner in ("full", "random", "paper")
        if planner in distinct(made["finals"], "planner")
        for column, words in QUANTITIES.items()
    ]  # fmt: skip


def _relative(column: str) -> Any:
    def relative(members: Sequence[Any]) -> float | None:
        values = [row[column] for row in members]
        risen = rise([row["rho"] for row in members], values)
        return None if risen is None else risen * len(values) / sum(values)

    return relative


STUDY = Study(
    name="fig8",
    title="Latency and importance at convergence against rho",
    about="HPFL on MNIST. Full and random selection do not look at rho; the proposed planner and `joint` do.",
    parts=parts,
    tables=tables,
    draw=draw,
    claims=statements,
    shown=("means",),
)
