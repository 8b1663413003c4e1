"""`hpfl run`: train over a simulated network and write the results down."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hpfl.cli_errors import reported
from hpfl.cli_folders import home, own_folder, to_resume, unused
from hpfl.cli_options import AddressOption, FormatOption, SetOption, SourceArgument, StyleOption, SystemOption
from hpfl.cli_running import run_with_display
from hpfl.cli_watching import watched
from hpfl.config import Config, load
from hpfl.kept_memory import keep_freed_memory
from hpfl.reporting.config_file import refuse_changed
from hpfl.reporting.formats import final_quality
from hpfl.reporting.looks import drawn_as
from hpfl.spreading import spread_by
from hpfl.training.watching import RunResult

WorkersOption = Annotated[
    int | None, typer.Option(help="Workers that compute the run's blocks of UEs (engine ray).", show_default="2")
]
CpusOption = Annotated[
    int | None,
    typer.Option(help="CPUs of a worker, and so its threads; results go by this.", show_default="1"),
]
GpusOption = Annotated[float | None, typer.Option(help="GPUs of a worker, or a share: 0.25.", show_default="0")]


@reported
def run_command(  # noqa: PLR0917  every option is passed by name
    source: SourceArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results.", show_default="runs/NAME, or runs/NAME-2, ... once that is there"),
    ] = None,
    system: SystemOption = None,
    set_: SetOption = None,
    seed: Annotated[int | None, typer.Option(help="Same as --set training.seed=N.", show_default=False)] = None,
    rounds: Annotated[int | None, typer.Option(help="Same as --set training.rounds=T.", show_default=False)] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    data_dir: Annotated[
        Path | None, typer.Option(envvar="HPFL_DATA_DIR", help="Where data sets lie.", show_default=False)
    ] = None,
    engine: Annotated[str, typer.Option(help="local (this process), or ray: workers of a cluster compute.")] = "local",
    workers: WorkersOption = None,
    cpus_per_worker: CpusOption = None,
    gpus_per_worker: GpusOption = None,
    address: AddressOption = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where the run in OUT left off; without --out, the newest of this name and configuration.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run in OUT; files that are no results of it stay.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the run in a browser while it goes on; see hpfl watch.")
    ] = False,
    formats: FormatOption = None,
    style: StyleOption = "screen",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train over a simulated mobile edge network and write the results to a folder.

    Leaves rounds.jsonl (one line per round), summary.json, config.toml, model.safetensors, ues.csv and figures/.
    Ctrl-C stops after the round and loses nothing. `hpfl figures DIR` draws the figures again, in other looks.
    """
    keep_freed_memory()
    if resume and own_folder(source) is not None:
        refuse_changed(Path(source))
    config = load(source, system=system, overrides=_overrides(set_, seed, rounds))
    spread = spread_by(
        engine, workers=workers, cpus_per_worker=cpus_per_worker, gpus_per_worker=gpus_per_worker, address=address
    )
    how: dict[str, Any] = {"resume": resume, "force": force, "device": device, "data_dir": data_dir, "quiet": quiet}
    with _folder(source, system, out, config, how) as folder, watched(folder, wanted=watch):
        with drawn_as(style, formats or ()):
            result = run_with_display(config, folder, spread=spread, **how)
        if not quiet:
            _closing_words(config, result, folder)
        if not result.completed:
            raise typer.Exit(130)


def _overrides(set_: list[str] | None, seed: int | None, rounds: int | None) -> list[str]:
    pairs = (("training.seed", seed), ("training.rounds", rounds))
    return [*(set_ or []), *(f"{name}={value}" for name, value in pairs if value is not None)]


@contextmanager
def _folder(
    source: str, system: str | None, out: Path | None, config: Config, how: Mapping[str, Any]
) -> Iterator[Path]:
    """Where the results go: as said, to the run that is to go on or to be replaced, else where nothing is yet."""
    usual, say = home(source, system), Console(quiet=how["quiet"], soft_wrap=True, highlight=False).print
    mine = own_folder(source) if system is None and (how["resume"] or how["force"]) else None
    if out or mine or how["force"]:
        yield out or mine or usual
    elif how["resume"]:
        folder = to_resume(usual, config)
        if folder != usual:
            say(f"going on with {folder}")
        yield folder
    else:
        with unused(usual) as folder:
            if folder != usual:
                say(f"{usual} is there already; results go to {folder}")
            yield folder


def _told_of_ues(config: Config, summary: Mapping[str, Any]) -> str:
    """What a private run has spent, and whether it ended by that."""
    spent = f"Epsilon of any one UE: {summary['epsilon']:.4g} (delta {summary['delta']:g})"
    if not summary["budget_spent"]:
        return f"{spent}."
    return f"{spent}; the next round could exceed privacy.budget_epsilon = {config.privacy.budget_epsilon:g}."


def _closing_words(config: Config, result: RunResult, folder: Path) -> None:
    console = Console()
    if not result.completed:
        console.print(f"Stopped after round {len(result.rounds)} of {config.training.rounds}. To go on:")
        console.print(f"  hpfl run {folder / 'config.toml'} --resume", soft_wrap=True)
        return
    summary = result.summary
    console.print(f"{len(result.rounds)} rounds, {summary['time_s']:.1f} simulated seconds: {final_quality(summary)}.")
    if summary.get("epsilon") is not None:
        console.print(_told_of_ues(config, summary), soft_wrap=True, highlight=False)
    if summary["diverged"]:
        console.print(
            "[yellow]The run has diverged:[/yellow] what it had learned is lost again. A smaller learning.outer_lr "
            f"helps (here {config.learning.outer_lr:g}).",
            soft_wrap=True,
        )
    console.print(f"Results in {folder}", soft_wrap=True)
