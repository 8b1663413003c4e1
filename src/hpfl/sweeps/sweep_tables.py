"""What a sweep comes to: one row per cell, means over seeds with 95 % intervals, ratios to a baseline seed by seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpfl.reporting.intervals import Interval, arrivals, mean_of_all, paired_ratio
from hpfl.reporting.targets import Target
from hpfl.reporting.ue_spread import WORSE_OFF
from hpfl.sweeps.cells import SEED, Cell, cell_names
from hpfl.sweeps.set_against import baselines
from hpfl.sweeps.study_file import CASE
from hpfl.sweeps.swept import Swept, result_rows, target_columns

UNKNOWN = "–"
_SAME = 1e-6


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """One figure of one row: a mean with its margin, a ratio with its ends, or words."""

    mean: float | None = None
    half: float | None = None
    ends: tuple[float, float] | None = None
    words: str = ""
    is_ratio: bool = False


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """A table: what it is of, its headings, how many of them name the row, and its rows of words and figures."""

    title: str
    headings: Sequence[str]
    naming: int
    rows: Sequence[Sequence[TableCell]]


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """A column of figures: its heading, the column of `results.csv`, and what it is multiplied by to be read."""

    heading: str
    column: str
    scale: float = 1.0


_ACCURACIES = (
    _Figure(heading="personalised accuracy (%)", column="final_personalised_accuracy", scale=100),
    _Figure(heading="best (%)", column="best_personalised_accuracy", scale=100),
    _Figure(heading="worst tenth (%)", column="final_personalised_accuracy_worst_tenth", scale=100),
    _Figure(heading="global accuracy (%)", column="final_global_accuracy", scale=100),
)
_LOSSES = (
    _Figure(heading="personalised test loss", column="final_personalised_test_loss"),
    _Figure(heading="best", column="best_personalised_test_loss"),
    _Figure(heading="global test loss", column="final_test_loss"),
)
_WORSE_OFF = _Figure(heading="worse off than local (%)", column=WORSE_OFF, scale=100)
_COSTS = (
    _Figure(heading="time (s)", column="time_s"),
    _Figure(heading="energy (J)", column="energy_j"),
)


def tables(sweep: Swept) -> list[ResultTable]:
    """Quality and costs of every cell, and then for each target what it took to get there."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in result_rows(sweep):
        rows.setdefault(row["cell"], []).append(row)
    cells = [cell for cell in sweep.cells if cell.name in rows]
    against = baselines(sweep.study, sweep.cells)
    return [
        _quality(sweep, cells, rows),
        *(_way(sweep, target, cells, rows, against) for target in sweep.targets),
    ]


def _quality(sweep: Swept, cells: Sequence[Cell], rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> ResultTable:
    accurate = any(row["final_personalised_accuracy"] is not None for each in rows.values() for row in each)
    alone = any(row[WORSE_OFF] is not None for each in rows.values() for row in each)
    figures = (*(_ACCURACIES if accurate else _LOSSES), *((_WORSE_OFF,) if alone else ()), *_COSTS)
    made = [
        [*_named(sweep, cell, rows[cell.name]), *(_mean(rows[cell.name], each) for each in figures)] for cell in cells
    ]
    headings = [*_axis_headings(sweep), "seeds", *(each.heading for each in figures)]
    return ResultTable(title="After the last round", headings=headings, naming=len(sweep.study.axes), rows=made)


def _way(
    sweep: Swept,
    target: Target,
    cells: Sequence[Cell],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    against: Mapping[str, str],
) -> ResultTable:
    columns = target_columns(target)
    figures = (
        _Figure(heading="time (s)", column=columns["time_to_target_s"]),
        _Figure(heading="rounds", column=columns["rounds_to_target"]),
        _Figure(heading="energy (J)", column=columns["energy_to_target_j"]),
        _Figure(heading="uplink (Mbit)", column=columns["uplink_bits_to_target"], scale=1e-6),
        _Figure(heading="downlink (Mbit)", column=columns["downlink_bits_to_target"], scale=1e-6),
    )
    compared = (figures[0], figures[2]) if sweep.study.baseline else ()
    made = []
    for cell in cells:
        own, other = rows[cell.name], rows.get(against.get(cell.name, ""), ())
        is_baseline = cell.name in against.values()
        ratios = [_ratio(own, other, each.column, is_baseline=is_baseline) for each in compared]
        made.append([*_named(sweep, cell, own), *(_mean(own, each) for each in figures), *ratios])
    headings = [*_axis_headings(sweep), "seeds", *(each.heading for each in figures)]
    headings += [f"{each.heading.partition(' ')[0]} / baseline" for each in compared]
    title = f"To {target.full}"
    return ResultTable(title=title, headings=headings, naming=len(sweep.study.axes), rows=made)


def _axis_headings(sweep: Swept) -> list[str]:
    last = [axis.rpartition(".")[2] for axis in sweep.study.axes]
    return [name if last.count(name) == 1 else axis for axis, name in zip(sweep.study.axes, last, strict=True)]


def _named(sweep: Swept, cell: Cell, rows: Sequence[Mapping[str, Any]]) -> list[TableCell]:
    axes = [TableCell(words=_said(axis, cell.values[axis])) for axis in sweep.study.axes]
    return [*axes, TableCell(words=str(len(rows)))]


def _said(axis: str, value: Any) -> str:
    """A value as it stands in a name: `1e6`, `joint`."""
    return cell_names([{axis: value}])[0].partition("=")[2] if axis != CASE and not isinstance(value, str) else value


def _mean(rows: Sequence[Mapping[str, Any]], figure: _Figure) -> TableCell:
    values = [row.get(figure.column) for row in rows]
    came = arrivals(values)
    if not came.all:
        return TableCell(words=f"{came} arrive" if "_to_" in figure.column else UNKNOWN)
    found = mean_of_all([None if value is None else figure.scale * value for value in values])
    return TableCell() if found is None else TableCell(mean=found.mean, half=found.half)


def _ratio(
    own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], column: str, *, is_baseline: bool
) -> TableCell:
    if is_baseline:
        return TableCell(words="baseline")
    found = paired_ratio(_by_seed(other, column), _by_seed(own, column)) if other else None
    return TableCell(words=UNKNOWN) if found is None else _ratio_cell(found)


def _ratio_cell(found: Interval) -> TableCell:
    ends = None if found.low is None or found.high is None else (found.low, found.high)
    return TableCell(mean=found.mean, ends=ends, is_ratio=True)


def _by_seed(rows: Sequence[Mapping[str, Any]], column: str) -> dict[Any, float | None]:
    return {row[SEED]: row.get(column) for row in rows}


def cell_text(cell: TableCell, *, plus_minus: str = " ± ", times: str = "×", span: Callable[[str, str], str]) -> str:
    """`12.3 ± 0.4`, `0.52× (0.48 .. 0.57)`, or words; as many decimals as its margin is worth."""
    if cell.mean is None:
        return cell.words or UNKNOWN
    half = cell.half if cell.ends is None else (cell.ends[1] - cell.ends[0]) / 2
    half = half if half and half > _SAME * abs(cell.mean) else None  # seeds that agree leave no margin
    decimals = _decimals(half, cell.mean)
    shown = f"{cell.mean:.{decimals}f}{times if cell.is_ratio else ''}"
    if cell.ends is not None and half is not None:
        low, high = (f"{end:.{decimals}f}" for end in cell.ends)
        return f"{shown} {span(low, high)}"
    return shown if half is None else f"{shown}{plus_minus}{half:.{decimals}f}"


def _decimals(half: float | None, mean: float) -> int:
    """Two digits of the margin; of a figure without one, four that count."""
    size, digits = (half, 2) if half else (abs(mean), 4)
    return 0 if not size else min(6, max(0, digits - 1 - math.floor(math.log10(size))))
