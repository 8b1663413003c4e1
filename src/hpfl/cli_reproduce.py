"""`hpfl reproduce`: run studies, or what is missing of them, judge the claims and write the page."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hpfl.cli_errors import refuse, reported
from hpfl.cli_options import FormatOption, StyleOption
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.style import FiguresUnavailableError
from hpfl.stopping import stopping_after_round
from hpfl.studies.altered import altered
from hpfl.studies.cases import FULL, QUICK, Scale
from hpfl.studies.catalogue import GROUPS, STUDIES, chosen
from hpfl.studies.collected import Collected, collect, verdicts
from hpfl.studies.page import figure, interval, write_page
from hpfl.studies.staged import known_parts
from hpfl.studies.study import Study, nothing_more
from hpfl.studies.summary_page import write_summary
from hpfl.sweeps.local_engine import usual_workers
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.runner import More, run_parts

_NAMES = f"{', '.join(STUDIES)}; or {', '.join(GROUPS)}."


@reported
def reproduce_command(  # noqa: PLR0917  every option is passed by name
    names: Annotated[list[str], typer.Argument(metavar="STUDY...", help=_NAMES, show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/reproduction, or -quick")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small sample: mnist-mini, fewer rounds; no CIFAR-10.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.KEY=VALUE", help="Change one key in all runs, e.g. planning.staleness_bound=10."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds; verdicts need five.", min=1)] = 5,
    first_seed: Annotated[int, typer.Option(help="The first of them.", min=0)] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only those runs whose name contains this; given several times, all of them. Such as mnist."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    workers: Annotated[
        int, typer.Option(help="Runs side by side; 0: as many as there are cores, at most 8.", min=0)
    ] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="HPFL_DATA_DIR", help="Where data sets lie.", show_default=False)
    ] = None,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Make tables, figures and page of the runs that are there.")
    ] = False,
    formats: FormatOption = None,
    style: StyleOption = "screen",
) -> None:
    """Run the sweeps behind figures of the paper, draw them, judge its claims, and write one page: OUT/index.html.

    Figures 3 to 11 are the paper's; planner-gap, clocks, orders (of the gradient), fairness, sensitivity,
    time-to-accuracy, own-step, adaptation, whole-cost, robust, privacy and methods go beyond it. Runs that are done are
    skipped, so an interrupted study goes on where it stopped, and folders of runs made on several machines merge by
    copying them together. The page tells of other studies too that are complete in OUT. Its figures are SVG and PNG
    for a screen; --format and --style add others, those of a style in a folder of its name: OUT/STUDY/ieee.
    """
    scale = QUICK if quick else FULL
    wanted = [altered(study, set_ or ()) for study in _chosen(names)]
    if out is not None and out.exists() and not out.is_dir():
        refuse(f"--out {out} is a file; wanted a folder")
    folder = out or Path("runs") / ("reproduction-quick" if quick else "reproduction")
    every = list(range(first_seed, first_seed + seeds))

    def known() -> list[StudyPart]:
        return _parts(wanted, scale, every, only or (), folder)

    if not no_run and not _run(known, folder, device=device, workers=workers, data_dir=data_dir):
        _say_stopped(known(), folder)
        raise typer.Exit(130)
    command = ["hpfl", "reproduce", *names, *_said(quick, seeds, first_seed, set_ or ())]
    with drawn_as(style, formats or ()):
        _report(wanted, scale, every, folder, shlex.join(command))


def _chosen(names: Sequence[str]) -> list[Study]:
    try:
        return chosen(names)
    except KeyError as error:
        refuse(f"no study is called {error.args[0]!r}; there are {_NAMES}")


def _parts(
    studies: Sequence[Study], scale: Scale, seeds: Sequence[int], only: Sequence[str], out: Path
) -> list[StudyPart]:
    """What is to be run by what is known now, each once; seed by seed, so that an interrupted study is even."""
    every = {part.name: part for seed in seeds for study in studies for part in study.parts(scale, [seed])}
    staged = [study for study in studies if study.then is not nothing_more]
    every |= {part.name: part for study in staged for part in known_parts(study, scale, seeds, out)}
    if not every:
        names = " and ".join(study.name for study in studies)
        refuse(f"{names} has no {scale.name} version: it needs CIFAR-10, and --quick has only a sample of MNIST")
    wanted = [part for part in every.values() if all(text in part.name for text in only)]
    if not wanted:
        refuse(f"no part's name contains {' and '.join(only)}; one is {next(iter(every))}")
    return wanted


def _run(known: More, folder: Path, *, device: str, workers: int, data_dir: Path | None) -> bool:
    console = Console(stderr=True)
    with stopping_after_round(console.print) as stop:
        return run_parts(
            known(),
            folder,
            device=device,
            data_dir=data_dir,
            workers=workers or usual_workers(),
            should_stop=lambda: stop.is_asked,
            console=console,
            more=known,
        )


def _say_stopped(parts: Sequence[StudyPart], folder: Path) -> None:
    """Who asks for a stop does not wait for tables and pictures."""
    there = sum(done(part, folder) is not None for part in parts)
    how = "The same command goes on; with --no-run it makes tables and page of those there are."
    Console().print(f"Stopped: {there} of {len(parts)} runs are done. {how}", soft_wrap=True, highlight=False)


def _report(wanted: Sequence[Study], scale: Scale, seeds: Sequence[int], folder: Path, command: str) -> None:
    """Tables, figures, verdicts and page of these studies, and of others that are complete in the folder."""
    try:
        outcomes = collect(wanted, scale, seeds, folder)
    except FiguresUnavailableError as error:
        refuse(str(error))
    if not outcomes:
        Console().print(f"No run has ended yet under {folder}", soft_wrap=True)
        return
    judged = verdicts(outcomes, folder)
    write_summary(outcomes, judged, folder, command)
    page = write_page(outcomes, judged, folder, command)
    _show_claims(judged)
    _show_speedups(outcomes)
    _show_bars(outcomes)
    Console().print(f"Page in {page}", soft_wrap=True)


def _said(quick: bool, seeds: int, first_seed: int, changes: Sequence[str]) -> list[str]:
    """The options that decide which runs there are, where they are not the usual ones."""
    given = {"--seeds": (seeds, 5), "--first-seed": (first_seed, 0)}
    numbers = [word for name, (value, usual) in given.items() if value != usual for word in (name, str(value))]
    return [*(["--quick"] if quick else []), *numbers, *(word for text in changes for word in ("--set", text))]


def _show_claims(judged: Sequence[Mapping[str, Any]]) -> None:
    if not judged:
        return
    table = Table(title="What the paper claims", title_justify="left")
    for column in ("claim", "verdict", "estimate and 95% interval", "decided by"):
        table.add_column(column)
    for claim in judged:
        table.add_row(claim["id"], claim["verdict"], interval(claim), claim["decided_by"])
    Console().print(table)


def _rival(row: Mapping[str, Any]) -> str:
    """Who `fastest` is set against, and at which steps where that is varied."""
    if "step" in row:
        return f"{row['rival']}, both at {'the preset' if row['step'] == 'preset' else 'their own'} step"
    return str(row["rival"] if row["rival"] == row["which"] else f"{row['rival']}: {row['which']}")


def _show_speedups(outcomes: Sequence[Collected]) -> None:
    rows = [row for outcome in outcomes for row in outcome.tables.get("speedups", ())]
    if not rows:
        return
    table = Table(title="How many times faster than each rival `fastest` is", title_justify="left")
    for column in ("data", "clock", "edge skew", "target", "rival", "times faster", "95% interval", "bar"):
        table.add_column(column, justify="right" if column == "times faster" else "left")
    for row in rows:
        ends = "" if row["low"] is None else f"{figure(row['low'])} .. {figure(row['high'])}"
        sign = ">= " if row["at_least"] else ""
        bar = "" if row.get("bar") is None else f"{row['bar']:.2f} {'met' if row['met'] else 'missed'}"
        place = (row["data"], row.get("clock", ""), f"{row['edge_skew']:g}", f"{row['target']:g}")
        table.add_row(*place, _rival(row), f"{sign}{row['speedup']:.2f}", ends, bar)
    Console().print(table)


def _show_bars(outcomes: Sequence[Collected]) -> None:
    """What was wanted of `fastest` with everything charged."""
    rows = [row for outcome in outcomes for row in outcome.tables.get("bars", ()) if "place" in row]
    if not rows:
        return
    table = Table(title="What is wanted of `fastest`", title_justify="left")
    for column in ("data", "place", "bar", "measured", "95% interval", "wanted", ""):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for row in rows:
        ends = "" if row["low"] is None else f"{figure(row['low'])} .. {figure(row['high'])}"
        measured = "none" if row["measured"] is None else f"{'>= ' if row['at_least'] else ''}{figure(row['measured'])}"
        met = "met" if row["met"] else "missed"
        table.add_row(row["data"], row["place"], row["bar"], measured, ends, row["wanted"], met)
    Console().print(table)
