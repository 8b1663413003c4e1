"""`hpfl theory`: play a run again, estimate the constants of the paper's assumptions, draw its bounds."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hpfl import atomic
from hpfl.cli_errors import refuse, reported
from hpfl.cli_options import FormatOption, StyleOption
from hpfl.reporting.console import download_progress
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.store import plain, writing
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.reporting.table import csv_text
from hpfl.stopping import Stop, stopping_after_round
from hpfl.studies import theory
from hpfl.studies.theory_picture import draw
from hpfl.studies.theory_replay import read_run
from hpfl.studies.theory_report import BOUNDS, summary, table

_NAMES = {
    "smoothness": "L, how fast gradients change",
    "gradient_bound": "C, largest gradient",
    "hessian_lipschitz": "Hessian-Lipschitz constant",
    "gradient_diversity": "gamma_G, diversity of gradients",
    "hessian_diversity": "gamma_H, diversity of Hessians",
}


@reported
def theory_command(  # noqa: PLR0917  every option is passed by name
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a simulated run, finished or stopped.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="RUN")] = None,
    points: Annotated[int, typer.Option(help="Rounds at which the constants are estimated.", min=2)] = 12,
    ues: Annotated[int, typer.Option(help="UEs they are estimated on, drawn at random; 0 is all.", min=0)] = 200,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    data_dir: Annotated[
        Path | None, typer.Option(envvar="HPFL_DATA_DIR", help="Where data sets lie.", show_default=False)
    ] = None,
    formats: FormatOption = None,
    style: StyleOption = "screen",
    as_json: Annotated[bool, typer.Option("--json", help="Print theory.json instead of tables.")] = False,
) -> None:
    """Check the paper's assumptions and Theorem 1 along a run, which is played again from its configuration.

    Leaves theory.csv (one row per round), theory.json, theory.png and theory.svg, or the kinds that --format says.
    Ctrl-C stops after the round and tells of the rounds until then.
    """
    options = theory.TheorySettings(points=points, ues=ues, device=device, data_dir=data_dir)
    rounds = len(read_run(run).records)
    folder = out or run
    if folder.exists() and not folder.is_dir():
        refuse(f"--out {folder} is a file; wanted a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _watched(rounds, options) as (watching, stop):
        findings = theory.examine(run, options, watching)
    found = plain(summary(findings))
    atomic.write_text(folder / "theory.csv", csv_text(table(findings)))
    atomic.write_text(folder / "theory.json", json.dumps(found, indent=2, allow_nan=False) + "\n")
    try:
        with drawn_as(style, formats or ()):
            draw(findings, folder)
    except FiguresUnavailableError as error:
        Console(stderr=True).print(str(error))
    if as_json:
        sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")
    else:
        _show(found, folder)
    if stop.is_asked:
        raise typer.Exit(130)


@contextmanager
def _watched(rounds: int, options: theory.TheorySettings) -> Iterator[tuple[theory.Watching, Stop]]:
    """A bar on standard error, and a Ctrl-C that waits for the round."""
    console = Console(stderr=True)
    total = theory.ROUND_SHARE * rounds + theory.POINT_SHARE * len(theory.points(options.points, rounds))
    bar = Progress(BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"), console=console)
    with bar, stopping_after_round(console.print) as stop:
        task = bar.add_task("loading", total=total)
        yield (
            theory.Watching(
                told=lambda text: bar.update(task, description=text),
                advanced=lambda share: bar.advance(task, share),
                should_stop=lambda: stop.is_asked,
                download=download_progress(quiet=True),
            ),
            stop,
        )


def _show(found: Mapping[str, Any], folder: Path) -> None:
    console = Console()
    constants = Table(title="Constants seen along the run (lower bounds of the true ones)", title_justify="left")
    constants.add_column("constant")
    constants.add_column("largest", justify="right")
    for name, meaning in _NAMES.items():
        constants.add_row(meaning, f"{found['constants'][name]:.4g}")
    console.print(constants)
    console.print(_lemma_table(found["lemmas"]))
    console.print(_bound_table(found))
    for text in (*found["departures"], *found["caveats"]):
        console.print(f"- {text}", highlight=False)
    if not found["completed"]:
        console.print(f"Stopped after {found['rounds']} of {found['recorded_rounds']} rounds.", highlight=False)
    console.print(_replay_words(found), highlight=False)
    console.print(f"Results in {folder}", soft_wrap=True)


def _lemma_table(of: Mapping[str, float]) -> Table:
    lemmas = Table(title="What Lemmas 1 and 2 make of them, and what was measured", title_justify="left")
    for column in ("", "as printed", "put right", "measured"):
        lemmas.add_column(column, justify="left" if not column else "right")
    for name in ("L_F", "gamma_F"):
        lemmas.add_row(name, *(f"{of[f'{kind}{name}']:.4g}" for kind in ("printed_", "", "measured_")))
    return lemmas


def _bound_table(found: Mapping[str, Any]) -> Table:
    change = found["loss_change"]
    title = f"Bounds of the loss change, which was {change['lowest']:.3g} to {change['highest']:.3g}"
    bounds = Table(title=title, title_justify="left")
    for column in ("bound", "held in", "median", "over |change|", "below 0"):
        bounds.add_column(column, justify="left" if column == "bound" else "right")
    for name, meaning in BOUNDS.items():
        row = found["bounds"][name]
        held, below = f"{row['held']} of {row['rounds']}", f"{row['promised_a_fall']} of {row['rounds']}"
        ratio = row["median_over_change"]
        bounds.add_row(meaning, held, f"{row['median']:.3g}", "" if ratio is None else f"{ratio:.3g}", below)
    return bounds


def _replay_words(found: Mapping[str, Any]) -> str:
    if found["replay_identical"]:
        return f"The replay repeated {found['rounds']} of {found['rounds']} records exactly."
    where = found["replay_difference"]
    return (
        f"The replay left the records in round {where['round']} ({', '.join(where['fields'])}): another version, "
        "device or number of threads; the figures are the replay's."
    )
