"""The page of a sweep: tables, curves, what was run and how, in one file that needs nothing else."""

import base64
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from hpfl import atomic
from hpfl.reporting import formats
from hpfl.reporting.page_style import whole_page
from hpfl.sweeps.sweep_folder import STUDY, study_text
from hpfl.sweeps.sweep_tables import ResultTable
from hpfl.sweeps.swept import Swept
from hpfl.sweeps.table_texts import html

PAGE = "index.html"


def write_sweep_page(
    sweep: Swept, out: Path, *, tables: Sequence[ResultTable], note: str, figures: Sequence[Path]
) -> Path:
    """Write the page into the sweep's folder."""
    drawn = next((path for path in figures if path.suffix == ".svg"), None)
    body = [
        _head(sweep, out),
        "" if drawn is None else _figure(drawn),
        *(html(table) for table in tables),
        f'<p class="muted">{escape(note)}</p>',
        _lost(sweep),
        f"<h2>What was run</h2><pre>{escape(study_text(sweep.study))}</pre>",
    ]
    atomic.write_text(out / PAGE, whole_page(f"Sweep of {escape(sweep.study.base)}", "".join(body)))
    return out / PAGE


def _head(sweep: Swept, out: Path) -> str:
    wanted = len(sweep.cells) * len(sweep.study.seed_list)
    there = f"{len(sweep.runs)} runs" if len(sweep.runs) == wanted else f"{len(sweep.runs)} of {wanted} runs"
    took = formats.seconds(sum(run.wall_s for run in sweep.runs))
    machines = {f"{run.environment['platform']}, {run.environment['device']}" for run in sweep.runs}
    versions = {f"HPFL {run.environment['hpfl']}, PyTorch {run.environment['torch']}" for run in sweep.runs}
    on = escape("; ".join([*sorted(machines), *sorted(versions)]))
    again = shlex.join(["hpfl", "sweep", str(Path(out.name) / STUDY)])
    return (
        f"<h1>Sweep of {escape(sweep.study.base)}</h1><p>{len(sweep.cells)} cells, {len(sweep.study.seed_list)} seeds "
        f'each: {there}.</p><p class="muted">{took} of run time in all, on {on}. Repeat it with '
        f"<code>{escape(again)}</code>; every number is in results.csv.</p>"
    )


def _figure(path: Path) -> str:
    code = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="curves of all cells" src="data:image/svg+xml;base64,{code}"></figure>'


def _lost(sweep: Swept) -> str:
    """The runs whose model was lost, with what was said of it."""
    lost = "".join(
        f"<li><code>{escape(run.view.label)}</code>: {escape(run.lost)}</li>" for run in sweep.runs if run.lost
    )
    return f"<h2>Models that were lost</h2><ul>{lost}</ul>" if lost else ""
