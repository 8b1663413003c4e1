"""The page of a search: tables, figure, every trial, what was run and how, in one file that needs nothing else."""

import base64
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting import formats
from hpfl.reporting.page_style import whole_page
from hpfl.sweeps.sweep_folder import study_text
from hpfl.sweeps.sweep_tables import UNKNOWN, ResultTable
from hpfl.sweeps.table_texts import html
from hpfl.tuning.plan import TunePlan
from hpfl.tuning.trials import Search
from hpfl.tuning.tune_folder import TUNE
from hpfl.tuning.tune_tables import at_ends, table_note, verdict

PAGE = "index.html"
_LEFT_OUT = ("case", "why", "rounds", "best")


def write_search_page(
    plan: TunePlan,
    searches: Sequence[Search],
    *,
    tables: Sequence[ResultTable],
    rows: Sequence[dict[str, Any]],
    figure: Path | None,
) -> Path:
    """Write the page into the search's folder."""
    body = [
        _head(plan, searches),
        f"<p><strong>{escape(verdict(plan, searches))}</strong> {escape(at_ends(plan, searches))}</p>",
        *(html(table) for table in tables),
        f'<p class="muted">{escape(table_note(plan))}</p>',
        "" if figure is None else _figure(figure),
        f"<details><summary>Every trial</summary>{_trials(rows)}</details>",
        f"<h2>What was run</h2><pre>{escape(study_text(plan.based.study))}</pre>",
    ]
    atomic.write_text(plan.out / PAGE, whole_page(f"Search over {escape(plan.based.study.base)}", "".join(body)))
    return plan.out / PAGE


def _head(plan: TunePlan, searches: Sequence[Search]) -> str:
    runs = [run for search in searches for trial in search.trials for run in trial.runs.values()]
    runs += [run for search in searches for each in search.fresh_runs.values() for run in each.values()]
    base, out = escape(plan.based.study.base), plan.out
    machines = {f"{run.environment['platform']}, {run.environment['device']}" for run in runs}
    versions = {f"HPFL {run.environment['hpfl']}, PyTorch {run.environment['torch']}" for run in runs}
    on = escape("; ".join([*sorted(machines), *sorted(versions)]))
    again = escape(shlex.join(["hpfl", "tune", str(Path(out.name) / TUNE)]))
    best = "".join(f"<li><code>best/{escape(search.cell.name)}.toml</code></li>" for search in searches if search.best)
    count = sum(len(search.trials) for search in searches)
    cases = f"{len(searches)} cases, {count} trials" if len(searches) > 1 else f"{count} trials"
    return (
        f"<h1>Search over {base}</h1><p>{escape(plan.objective.title)}: {cases}.</p>"
        f'<p class="muted">{formats.seconds(sum(run.wall_s for run in runs))} of run time in all, on {on}. Go on with '
        f"<code>{again}</code>; every number is in trials.csv. The best configurations, for "
        f'<code>hpfl run</code>:</p><ul class="muted">{best}</ul>'
    )


def _figure(path: Path) -> str:
    code = base64.b64encode(path.read_bytes()).decode()
    alt = "the best so far by trial, and values against each key"
    return f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{code}"></figure>'


def _trials(rows: Sequence[dict[str, Any]]) -> str:
    names = [name for name in (rows[0] if rows else {}) if name not in _LEFT_OUT]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for row in rows:
        cells = "".join(f'<td class="number">{escape(_shown(row[name]))}</td>' for name in names)
        lines.append(f"<tr>{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _shown(value: Any) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.5g}" if isinstance(value, float) else str(value)
