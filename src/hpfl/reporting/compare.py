"""Several runs side by side: one row for each configuration, timed to one target, as a table, as JSON, in words."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hpfl import atomic
from hpfl.reporting import formats
from hpfl.reporting.compare_figure import compare_figure
from hpfl.reporting.group_rows import flat_columns, rows
from hpfl.reporting.groups import Group, grouped, repeated
from hpfl.reporting.runs import RunView, common_time_word, load_runs
from hpfl.reporting.schedules import same_edges
from hpfl.reporting.store import writing
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.reporting.table import csv_text
from hpfl.reporting.targets import LOSS, Target
from hpfl.reporting.ways import Ways, common_target, metric_of, ways_to
from hpfl.reporting.why import why

MOST_REASONS = 5
"""With more groups than this, sentences say how much sooner the fastest was, and no longer why."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs grouped by configuration, the accuracy they are timed to, where that came from, one flat row per group."""

    groups: tuple[Group, ...]
    target: Target | None
    target_origin: str
    rows: tuple[dict[str, Any], ...]
    ways: tuple[Ways, ...] = ()
    """The way of every group to the target; none where there is no target."""

    @property
    def by_loss(self) -> bool:
        """Whether no run has an accuracy, as in regression."""
        return metric_of([view for group in self.groups for view in group.runs]) == LOSS

    @property
    def several_seeds(self) -> bool:
        """Whether some group has more than one run."""
        return any(len(group.runs) > 1 for group in self.groups)


def compare_runs(folders: Sequence[Path | str], *, target: Target | None = None) -> Comparison:
    """Read folders of results and compare them."""
    return compare_views(load_runs(folders), target=target)


def compare_views(runs: Sequence[RunView], *, target: Target | None = None) -> Comparison:
    """Compare runs, of whatever length, by the target given, else a common one (see `common_target`)."""
    chosen, origin = (target, "as given") if target is not None else common_target(runs)
    groups = grouped(runs)
    ways = [] if chosen is None else [ways_to(group, chosen) for group in groups]
    made = rows(groups, ways or None, chosen)
    return Comparison(groups=tuple(groups), target=chosen, target_origin=origin, rows=tuple(made), ways=tuple(ways))


def explanations(comparison: Comparison) -> list[str]:
    """Why the fastest group was sooner than each of the others, who chose the same edges, and what is there twice."""
    return [*_reasons(comparison), *same_edges(comparison.groups), *repeated(comparison.groups)]


def _reasons(comparison: Comparison) -> list[str]:
    if comparison.target is None:
        return []
    first, *others = sorted(comparison.ways, key=lambda ways: ways.order)
    brief = len(comparison.groups) > MOST_REASONS
    return [why(first, other, comparison.target, brief=brief) for other in others]


def table(comparison: Comparison, *, width: int = 200) -> Table:
    """One row per group for a terminal `width` characters wide; the soonest at the target is set in bold."""
    grid = Table(
        caption_justify="left", caption=_caption(comparison), header_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1)
    )
    columns = _columns(comparison, width)
    for heading, justify in columns:
        grid.add_column(heading, justify=justify, no_wrap=True)
    soonest = min(comparison.ways, key=lambda ways: ways.order).group.label if len(comparison.ways) > 1 else ""
    for row in comparison.rows:
        cells = _cells(row, comparison)
        grid.add_row(*(cells[heading] for heading, _ in columns), style="bold" if row["label"] == soonest else "")
    return grid


def compare_command_output(
    folders: Sequence[Path],
    *,
    target: Target | None,
    figures: Sequence[Path],
    as_json: bool,
    csv: Path | None = None,
    console: Console | None = None,
) -> Comparison:
    """What `hpfl compare` does: a table and the reasons (or one JSON object per group), figures, and maybe CSV."""
    screen = console or Console()
    comparison = compare_runs(folders, target=target)
    if as_json:
        for row in comparison.rows:
            screen.print(json.dumps(row, allow_nan=False), soft_wrap=True, markup=False, highlight=False)
    else:
        show(comparison, screen)
    notes = [*_drawn(comparison, figures), *([] if csv is None else [f"table: {_written(comparison, csv)}"])]
    for note in () if as_json else notes:
        screen.print(note, soft_wrap=True, markup=False, highlight=False)
    return comparison


def _written(comparison: Comparison, path: Path) -> Path:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, csv_text(flat_columns(comparison.rows)))
    return path


def show(comparison: Comparison, console: Console) -> None:
    """Print the table and, below it, why the fastest was fastest."""
    screen = console if console.is_terminal else Console(file=console.file, width=200)
    screen.print(table(comparison, width=screen.width))
    for sentence in explanations(comparison):
        console.print(sentence, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def _drawn(comparison: Comparison, paths: Sequence[Path]) -> list[str]:
    groups, ways, target = comparison.groups, comparison.ways, comparison.target
    try:
        return [f"figure: {compare_figure(groups, ways, path, target=target)}" for path in paths]
    except FiguresUnavailableError as error:
        return [str(error)]


DISPENSABLE = ("rounds\nto it", "energy", "global %\n(best)", "global loss\n(best)", "edges\n/round", "planner")
"""Columns left out, in this order and then the time, where the terminal is too narrow."""


def _cells(row: dict[str, Any], comparison: Comparison) -> dict[str, str]:
    """Means over seeds and under each, where there are several, half its interval."""
    target = "target" if comparison.target is None else comparison.target.short
    seeds = {"seeds": str(len(row["runs"]))} if comparison.several_seeds else {}
    return {
        "run": row["label"],
        **seeds,
        "system": row["system"] or formats.UNKNOWN,
        "planner": row["planner"] or formats.UNKNOWN,
        "rounds": formats.number(row["rounds"]),
        _time_heading(comparison): _seconds(row, "time_s"),
        **_quality(row, comparison),
        f"time to\n{target}": _time_to_target(row),
        "rounds\nto it": _cell(row, "rounds_to_target", formats.number),
        "latency\n(s/round)": _cell(row, "mean_latency_s", formats.number),
        "edges\n/round": _cell(row, "mean_scheduled", formats.number),
        "energy": _cell(row, "energy_j", lambda value: formats.quantity(value, "J")),
    }


def _cell(row: dict[str, Any], name: str, text: Callable[[float | None], str]) -> str:
    shown = text(row[name])
    return shown + _margin(row, name, lambda half: formats.margin(half, beside=shown))


def _margin(row: dict[str, Any], name: str, text: Callable[[float], str]) -> str:
    """Half the interval of a figure, on a line of its own; nothing where there is none."""
    ends = row["intervals"].get(name)
    return "" if ends is None else f"\n{text((ends[1] - ends[0]) / 2)}"


def _time_to_target(row: dict[str, Any]) -> str:
    reached, there = row["num_reached"], len(row["runs"])
    if there > 1 and reached is not None and reached < there:
        return f"{reached} of {there}\narrive"
    return _seconds(row, "time_to_target_s")


def _seconds(row: dict[str, Any], name: str) -> str:
    return formats.seconds(row[name]) + _margin(row, name, lambda half: formats.margin_s(half, beside=row[name]))


def _quality(row: dict[str, Any], comparison: Comparison) -> dict[str, str]:
    """Personalised and global accuracy, or where no run has one the losses on test samples."""
    if comparison.by_loss:
        return {
            "personalised\nloss (best)": _losses(row, "personalised_test_loss"),
            "global loss\n(best)": _losses(row, "test_loss"),
        }
    return {
        "personalised\n% (best)": _final_and_best(row, "personalised_accuracy"),
        "global %\n(best)": _final_and_best(row, "global_accuracy"),
    }


def _losses(row: dict[str, Any], name: str) -> str:
    if row[f"final_{name}"] is None:
        return formats.UNKNOWN
    shown = formats.number(row[f"final_{name}"])
    margin = _margin(row, f"final_{name}", lambda half: formats.margin(half, beside=shown))
    return f"{shown} ({formats.number(row[f'best_{name}'])}){margin}"


def _final_and_best(row: dict[str, Any], name: str) -> str:
    if row[f"final_{name}"] is None:
        return formats.UNKNOWN
    values = f"{100 * row[f'final_{name}']:.1f} ({100 * row[f'best_{name}']:.1f})"
    return values + _margin(row, f"final_{name}", lambda half: f"± {100 * half:.1f}")


def _columns(comparison: Comparison, width: int) -> list[tuple[str, Literal["left", "right"]]]:
    """Headings that fit, names to the left and numbers to the right."""
    found = [_cells(row, comparison) for row in comparison.rows]
    kept = list(found[0]) if found else []
    need = {
        name: max(len(line) for text in (name, *(row[name] for row in found)) for line in text.split("\n")) + 2
        for name in kept
    }
    for name in (*DISPENSABLE, _time_heading(comparison)):
        if name in kept and sum(need[heading] for heading in kept) + 2 > width:
            kept.remove(name)
    return [(name, "left" if name in {"run", "system", "planner"} else "right") for name in kept]


def _time_heading(comparison: Comparison) -> str:
    return common_time_word(group.time_word for group in comparison.groups).replace(" ", "\n")


def _caption(comparison: Comparison) -> str:
    seeds = (
        "; means over runs that differ in the seed alone, ± half their 95 % interval"
        if comparison.several_seeds
        else ""
    )
    if comparison.target is None:
        return f"no common target: {comparison.target_origin}{seeds}"
    return (
        f"target {comparison.target.full} ({comparison.target_origin}), "
        f"reached at the first of three successive evaluations{seeds}"
    )
