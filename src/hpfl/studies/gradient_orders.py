"""Study `orders`: exact, Hessian-free and first-order gradients of the personalised objective."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpfl.reporting.style import MUTED, SERIES
from hpfl.studies.beyond import less
from hpfl.studies.cases import Scale, case
from hpfl.studies.curves import Line, draw_lines, name, panels
from hpfl.studies.study import Found, Rows, Study, TableRow, Tables
from hpfl.studies.tabulate import EVALUATED, bands, distinct, evaluations, finals, where
from hpfl.sweeps.parts import StudyPart

OBJECTIVES = ("exact", "hessian-free", "first-order")
PLANNERS: Mapping[str, Sequence[str]] = {"mnist": ("paper", "full"), "cifar10": ("paper",)}
COMPARED = ("personalised_accuracy", "meta_loss", "global_accuracy", "loss")
_SHADES = dict(zip(OBJECTIVES, SERIES, strict=False))
_DASHES: Mapping[str, Any] = {"paper": "-", "full": (0, (3, 1.4))}
_WIDTHS = {"exact": 3.0}


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """HPFL with each objective, with the proposed and full selection; the exact ones are those of figures 3 and 4."""
    grid = [
        (data, planner, objective)
        for data, planners in PLANNERS.items()
        if scale.has(data)
        for planner in (planners[:1] if scale.thin else planners)
        for objective in OBJECTIVES
    ]
    return [
        case(scale, data, seed, planner=planner, vary={"learning.objective": objective})
        for seed in seeds
        for data, planner, objective in grid
    ]


def tables(found: Sequence[Found]) -> Tables:
    """`differences` of final values from exact gradients' by seed; `finals`; `curves`; and `apart`, round by round."""
    ends, rows = finals(found), evaluations(found)
    keys = ("data", "planner", "objective")
    return {
        "differences": [row for place in _places(ends) for row in _from_exact(ends, place, COMPARED)],
        "finals": ends,
        "curves": bands(rows, (*keys, "round"), EVALUATED),
        "apart": [
            row | {"round": number}
            for place in _places(rows)
            for number in distinct(where(rows, **place), "round")
            for row in _from_exact(where(rows, round=number), place, ("personalised_accuracy", "meta_loss"))
        ],
    }


def _places(rows: Rows) -> list[TableRow]:
    pairs = dict.fromkeys((row["data"], row["planner"]) for row in rows)
    return [{"data": data, "planner": planner} for data, planner in pairs]


def _from_exact(rows: Rows, place: TableRow, columns: Sequence[str]) -> Rows:
    """Each approximation less exact, paired by seed."""
    exact = where(rows, **place, objective="exact")
    return [
        {**place, "objective": objective, **less(where(rows, **place, objective=objective), exact, columns)}
        for objective in OBJECTIVES[1:]
        if where(rows, **place, objective=objective)
    ]


def draw(made: Tables, folder: Path) -> list[Path]:
    """One row per data set: loss, accuracy, and how far the accuracies of approximations are from the exact one's."""
    data = distinct(made["curves"], "data")
    cells = [(which, column) for which in data for column in ("meta_loss", "personalised_accuracy", "apart")]

    def fill(index: int, axes: Any) -> None:
        which, column = cells[index]
        if column == "apart":
            _apart(axes, where(made["apart"], data=which))
        else:
            draw_lines(axes, _lines(where(made["curves"], data=which)), "round", column)
        axes.set_xlabel("round")

    facts = ("What the second derivative is worth", "means over seeds, paired on the right, bands: 95 % intervals")
    return panels(folder / "orders", facts, [name(which) for which, _ in cells], fill, rows=len(data))


def _lines(rows: Rows) -> list[Line]:
    return [
        Line(
            where(rows, planner=planner, objective=objective),
            f"{objective.replace('hessian', 'Hessian')}, {name(planner)}",
            _SHADES[objective],
            _DASHES[planner],
            width=_WIDTHS.get(objective, 1.5),
        )
        for planner in distinct(rows, "planner")
        for objective in OBJECTIVES
    ]


def _apart(axes: Any, rows: Rows) -> None:
    """Differences in points, around the exact gradients' zero."""
    column = "personalised_accuracy"
    points = [
        row | {key: None if row[key] is None else 100 * row[key] for key in (column, f"{column}_low", f"{column}_high")}
        for row in rows
    ]
    lines = [line for line in _lines([_renamed(row, column) for row in points]) if line.rows]
    axes.axhline(0.0, color=MUTED, linewidth=0.8)
    draw_lines(axes, lines, "round", "points")
    axes.set_ylabel("accuracy less exact's (points)")


def _renamed(row: TableRow, column: str) -> TableRow:
    return row | {f"points{end}": row[f"{column}{end}"] for end in ("", "_low", "_high")}


STUDY = Study(
    name="orders",
    title="Exact, Hessian-free and first-order gradients",
    about="The gradient of the personalised objective holds a Hessian-vector product: computed exactly, by a central "
    "difference of gradients (Hessian-free), or left out (first-order). These models have ReLUs: the difference steps "
    "over their kinks and sees a curvature there that the Hessian, taken almost everywhere, does not.",
    parts=parts,
    tables=tables,
    draw=draw,
    shown=("differences",),
)
