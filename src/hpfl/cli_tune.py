"""`hpfl tune`: the best values of keys for every case of a study, on the engines and in the folders of sweeps."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hpfl.cli_errors import leave, refuse, reported
from hpfl.cli_options import (
    AddressOption,
    DataPlaceOption,
    EngineOption,
    FormatOption,
    RunCpusOption,
    RunDeviceOption,
    RunGpusOption,
    SharedGpusOption,
    SideBySideOption,
    StyleOption,
)
from hpfl.cli_results import failures, shown
from hpfl.reporting.looks import drawn_as
from hpfl.stopping import stopping_after_round
from hpfl.sweeps.study_file import is_study
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import BasedStudy, open_study
from hpfl.sweeps.sweeping import Cluster, Means
from hpfl.tuning.plan import TunePlan, planned_search, usual_folder
from hpfl.tuning.tune_folder import TUNE, home_of_search
from hpfl.tuning.tune_page import PAGE
from hpfl.tuning.tune_tables import at_ends, verdict
from hpfl.tuning.tuning import TuneResult, carry_out_search


@reported
def tune_command(  # noqa: PLR0917  every option is passed by name
    source: Annotated[
        Path, typer.Argument(metavar="STUDY", help="A study's TOML file that says what to tune.", show_default=False)
    ],
    trials: Annotated[
        int | None, typer.Option(help="Trials of each case.", min=1, show_default="as in STUDY, else 20")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for everything.", show_default="runs/NAME-tune, or -2, ...")
    ] = None,
    workers: SideBySideOption = 0,
    engine: EngineOption = "local",
    gpus: SharedGpusOption = 0,
    cpus_per_run: RunCpusOption = 1,
    gpus_per_run: RunGpusOption = 0.0,
    address: AddressOption = None,
    device: RunDeviceOption = "auto",
    data_dir: DataPlaceOption = None,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Run nothing; make everything of the trials there are.")
    ] = False,
    formats: FormatOption = None,
    style: StyleOption = "screen",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Search the best values of keys for each case of a study; leave trials, tables, a figure and a page.

    STUDY is a sweep's file that has a table tune; its grid, zip and cases are tuned one by one. This tunes the step
    size of each system, which tells whether a comparison at one step size was fair:

    \b
      base = "quickstart"
      seeds = 3
      targets = [0.8]
      grid.system = ["hpfl", "hfl", "fl"]
      tune.limit = 20.0     # seconds: what a run counts as that never arrives
      tune.trials = 16      # of each case; the first as it is configured
      tune.space.learning.outer_lr = { low = 0.01, high = 1.0, log = true }

    tune.objective is seconds, rounds, joules or bits to the target, or a column of results as final_global_accuracy.
    A list of values is a choice: planning.planner = ["joint", "fastest"]. Whole keys take whole numbers. A trial whose
    first seed is behind the median of those before it, at the same simulated second, is given up (tune.prune). The
    best and the configured values are run once more on fresh seeds, of which the table's intervals are.

    In OUT: trials.csv, best/CASE.toml for hpfl run, table.md and .tex, figures/, index.html, tune.toml, and every run.
    Ctrl-C stops after the round; hpfl tune OUT/tune.toml goes on, also after a kill, to the same trials.
    docs/sweep.md has all settings. Needs the extra tune.
    """
    based = _based(source, trials)
    folder = out or home_of_search(source) or usual_folder(source.stem, based)
    plan = planned_search(based, folder, where=str(source))
    cluster = Cluster(cpus_per_run=cpus_per_run, gpus_per_run=gpus_per_run, address=address or "")
    means = Means(
        engine=engine, workers=workers, gpus=gpus, cluster=cluster, device=device, data_dir=data_dir, run=not no_run
    )
    console = Console(quiet=quiet)
    _announce(plan, console)
    display = SweepDisplay(console=console, quiet=quiet)
    with display, stopping_after_round(display.note) as stop, drawn_as(style, formats or ()):
        result = carry_out_search(plan, means, display, should_stop=lambda: stop.is_asked)
    _report(result, plan, console)


def _based(source: Path, trials: int | None) -> BasedStudy:
    if not source.is_file():
        refuse(f"{source} is not a file; wanted a study's TOML file with a table [tune] (hpfl tune --help shows one)")
    if not is_study(source):
        refuse(f"{source} names no base; wanted a study with a table [tune] (hpfl tune --help shows one)")
    based = open_study(source)
    if trials is None or not based.study.tune:
        return based
    study = based.study.model_copy(update={"tune": {**based.study.tune, "trials": trials}})
    return BasedStudy(study=study, base=based.base)


def _announce(plan: TunePlan, console: Console) -> None:
    cases, trials, seeds = len(plan.cells), plan.settings.trials, len(plan.seeds)
    most = cases * (trials * seeds + plan.most_fresh)
    what = f"{cases} case{'s' * (cases != 1)}, {trials} trials each with {seeds} seed{'s' * (seeds != 1)}"
    console.print(f"{what}: at most {most} runs, in {plan.out}", soft_wrap=True, highlight=False, markup=False)


def _report(result: TuneResult, plan: TunePlan, console: Console) -> None:
    screen = console if console.is_terminal else Console(file=console.file, width=200, quiet=console.quiet)
    for table in result.tables:
        screen.print(shown(table, width=screen.width))
    if result.tables:
        known = [search for search in result.searches if search.best is not None]
        for line in (
            verdict(plan, known),
            at_ends(plan, known),
            f"Best configurations in {plan.out / 'best'}, page in {plan.out / PAGE}",
        ):
            if line:
                console.print(line, soft_wrap=True, highlight=False, markup=False)
    again = shlex.join(["hpfl", "tune", str(plan.out / TUNE)])
    if result.left.missing:
        done = sum(trial.state != "running" for search in result.searches for trial in search.trials)
        console.print(f"Stopped: {done} trials are over. To go on:\n  {again}", soft_wrap=True, highlight=False)
        raise typer.Exit(130)
    if result.left.failed:
        leave(failures(result.left.failed), status=1)
    if not result.tables:
        console.print(f"No trial has ended with a value yet. To go on:\n  {again}", soft_wrap=True, highlight=False)
