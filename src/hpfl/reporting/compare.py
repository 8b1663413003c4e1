"""Several runs side by side: one row each, timed to one accuracy, as a table, as JSON and in words."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hpfl.reporting import formats
from hpfl.reporting.compare_figure import compare_figure
from hpfl.reporting.runs import RunView, common_time_word, load_runs
from hpfl.reporting.store import plain
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.reporting.summary import summarise
from hpfl.reporting.why import common_target, why


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs, the accuracy they are timed to, where that came from, and one flat row per run."""

    runs: tuple[RunView, ...]
    target: float | None
    target_origin: str
    rows: tuple[dict[str, Any], ...]


def compare_runs(folders: Sequence[Path | str], *, target: float | None = None) -> Comparison:
    """Read folders of results and compare them."""
    return compare_views(load_runs(folders), target=target)


def compare_views(runs: Sequence[RunView], *, target: float | None = None) -> Comparison:
    """Compare runs, of whatever length, by the target given, else a common one (see `common_target`)."""
    chosen, origin = (target, "as given") if target is not None else common_target(runs)
    rows = tuple(_row(view, chosen) for view in runs)
    return Comparison(runs=tuple(runs), target=chosen, target_origin=origin, rows=rows)


def fastest_first(comparison: Comparison) -> list[RunView]:
    """Runs by time to the target; those that never reached it last."""
    times = {row["label"]: row["time_to_target_s"] for row in comparison.rows}
    return sorted(comparison.runs, key=lambda view: math.inf if times[view.label] is None else times[view.label])


def explanations(comparison: Comparison) -> list[str]:
    """Why the fastest run was sooner than each of the others."""
    if comparison.target is None:
        return []
    first, *others = fastest_first(comparison)
    return [why(first, other, comparison.target) for other in others]


def table(comparison: Comparison, *, width: int = 200) -> Table:
    """One row per run for a terminal `width` characters wide; the soonest at the target is set in bold."""
    grid = Table(
        caption_justify="left", caption=_caption(comparison), header_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1)
    )
    columns = _columns(comparison, width)
    for heading, justify in columns:
        grid.add_column(heading, justify=justify, no_wrap=True)
    soonest = fastest_first(comparison)[0].label if comparison.target is not None and len(comparison.runs) > 1 else ""
    for row in comparison.rows:
        cells = _cells(row, comparison)
        grid.add_row(*(cells[heading] for heading, _ in columns), style="bold" if row["label"] == soonest else "")
    return grid


def compare_command_output(
    folders: Sequence[Path],
    *,
    target: float | None,
    figure: Path,
    as_json: bool,
    console: Console | None = None,
) -> Comparison:
    """What `hpfl compare` does: a table and the reasons (or one JSON object per run), and a figure."""
    screen = console or Console()
    comparison = compare_runs(folders, target=target)
    if as_json:
        for row in comparison.rows:
            screen.print(json.dumps(row, allow_nan=False), soft_wrap=True, markup=False, highlight=False)
    else:
        show(comparison, screen)
    note = _drawn(comparison, figure)
    if not as_json:
        screen.print(note, soft_wrap=True, markup=False, highlight=False)
    return comparison


def show(comparison: Comparison, console: Console) -> None:
    """Print the table and, below it, why the fastest was fastest."""
    screen = console if console.is_terminal else Console(file=console.file, width=200)
    screen.print(table(comparison, width=screen.width))
    for sentence in explanations(comparison):
        console.print(sentence, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def _drawn(comparison: Comparison, path: Path) -> str:
    try:
        return f"figure: {compare_figure(list(comparison.runs), path, target=comparison.target)}"
    except FiguresUnavailableError as error:
        return str(error)


def _row(view: RunView, target: float | None) -> dict[str, Any]:
    names = {"label": view.label, "system": view.system, "planner": view.planner}
    row: dict[str, Any] = plain(names | summarise(view.rows, target_accuracy=target))
    return row


DISPENSABLE = ("rounds\nto it", "energy", "global %\n(best)", "edges\n/round", "planner")
"""Columns left out, in this order and then the time, where the terminal is too narrow."""


def _cells(row: dict[str, Any], comparison: Comparison) -> dict[str, str]:
    target = "target" if comparison.target is None else formats.share(comparison.target)
    return {
        "run": row["label"],
        "system": row["system"] or formats.UNKNOWN,
        "planner": row["planner"] or formats.UNKNOWN,
        "rounds": formats.number(row["rounds"]),
        _time_heading(comparison): formats.seconds(row["time_s"]),
        "personalised\n% (best)": _final_and_best(row, "personalised_accuracy"),
        "global %\n(best)": _final_and_best(row, "global_accuracy"),
        f"time to\n{target}": formats.seconds(row["time_to_target_s"]),
        "rounds\nto it": formats.number(row["rounds_to_target"]),
        "latency\n(s/round)": formats.number(row["mean_latency_s"]),
        "edges\n/round": formats.number(row["mean_scheduled"]),
        "energy": formats.quantity(row["energy_j"], "J"),
    }


def _columns(comparison: Comparison, width: int) -> list[tuple[str, Literal["left", "right"]]]:
    """Headings that fit, names to the left and numbers to the right."""
    rows = [_cells(row, comparison) for row in comparison.rows]
    kept = list(rows[0]) if rows else []
    need = {name: max(len(line) for line in (*name.split("\n"), *(row[name] for row in rows))) + 2 for name in kept}
    for name in (*DISPENSABLE, _time_heading(comparison)):
        if sum(need[heading] for heading in kept) + 2 > width:
            kept.remove(name)
    return [(name, "left" if name in {"run", "system", "planner"} else "right") for name in kept]


def _time_heading(comparison: Comparison) -> str:
    return common_time_word(comparison.runs).replace(" ", "\n")


def _final_and_best(row: dict[str, Any], name: str) -> str:
    if row[f"final_{name}"] is None:
        return formats.UNKNOWN
    return f"{100 * row[f'final_{name}']:.1f} ({100 * row[f'best_{name}']:.1f})"


def _caption(comparison: Comparison) -> str:
    if comparison.target is None:
        return f"no common target: {comparison.target_origin}"
    return (
        f"target {formats.share(comparison.target)} personalised accuracy ({comparison.target_origin}), "
        "reached at the first of three successive evaluations"
    )
