"""`hpfl reproduce`: run a study, or what is missing of it, and write its tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hpfl.cli_errors import refuse, reported
from hpfl.cli_running import stopping_after_round
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.studies import time_to_accuracy as study
from hpfl.studies.bars import comparisons
from hpfl.studies.picture import draw
from hpfl.studies.runner import results, run_parts
from hpfl.studies.tables import Row, write_table

STUDIES = {"time-to-accuracy": "simulated seconds, joules and bits to a personalised accuracy, planner by planner"}


@reported
def reproduce_command(  # noqa: PLR0917  every option is passed by name
    name: Annotated[str, typer.Argument(metavar="STUDY", help=f"One of: {', '.join(STUDIES)}.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="runs/STUDY")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small sample: mnist-mini, few planners and rounds.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="The first of them.", min=0)] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="Only parts whose name contains this; may be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    workers: Annotated[int, typer.Option(help="Runs side by side.", min=1)] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="HPFL_DATA_DIR", help="Where data sets lie.", show_default=False)
    ] = None,
) -> None:
    """Run a study and write its tables.

    Parts that are done are skipped, so an interrupted study goes on where it stopped, and folders of parts made on
    several machines merge by copying them together. Tables are made of whatever parts are there.
    """
    if name not in STUDIES:
        refuse(f"no study is called {name!r}; there are {', '.join(STUDIES)}")
    folder, console = out or Path("runs") / name, Console(stderr=True)
    settings = study.QUICK if quick else study.FULL
    every = study.parts(settings, range(first_seed, first_seed + seeds))
    wanted = [part for part in every if all(text in part.name for text in only or ())]
    if not wanted:
        refuse(f"no part's name contains {' and '.join(only or ())}; one is {every[0].name}")
    with stopping_after_round(console.print) as stops:
        complete = run_parts(
            wanted,
            folder,
            device=device,
            data_dir=data_dir,
            workers=workers,
            should_stop=lambda: bool(stops),
            console=console,
        )
    runs = study.run_rows(results(every, folder), settings)
    write_table(folder, "runs", runs)
    cells = study.summary_rows(runs)
    write_table(folder, "cells", cells)
    versus = comparisons(runs, settings)
    write_table(folder, "speedups", versus)
    _show(versus)
    try:
        draw(cells, {data: setting.targets[-1] for data, setting in settings.items()}, folder)
    except FiguresUnavailableError as error:
        console.print(str(error))
    Console().print(f"Tables in {folder}", soft_wrap=True)
    if not complete:
        raise typer.Exit(130)


def _show(versus: Sequence[Row]) -> None:
    table = Table(title="How many times faster than each rival `fastest` is", title_justify="left")
    for column in ("data", "clock", "edge skew", "target", "rival", "times faster", "95% interval", "bar"):
        table.add_column(column, justify="right" if column == "times faster" else "left")
    for row in versus:
        ends = "" if row["low"] is None else f"{row['low']:.2f} .. {row['high']:.2f}"
        sign = ">= " if row["at_least"] else ""
        bar = "" if row["bar"] is None else f"{row['bar']:.2f} {'met' if row['met'] else 'missed'}"
        rival = row["rival"] if row["rival"] == row["which"] else f"{row['rival']}: {row['which']}"
        place = (row["data"], row["clock"], f"{row['edge_skew']:g}", f"{row['target']:g}")
        table.add_row(*place, rival, f"{sign}{row['speedup']:.2f}", ends, bar)
    Console().print(table)
