"""The front door: `hpfl run`, `hpfl plan`, `hpfl compare` and the rest."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import hpfl
from hpfl.cli_demo import demo_command
from hpfl.cli_deploy import register as register_deployment
from hpfl.cli_errors import refuse, reported
from hpfl.cli_folders import home, own_folder, to_resume, unused
from hpfl.cli_plan import plan_command
from hpfl.cli_reproduce import reproduce_command
from hpfl.cli_running import run_with_display
from hpfl.cli_theory import theory_command
from hpfl.cli_timeline import timeline_command
from hpfl.config import SYSTEMS, Config, load, preset_names, preset_text, to_toml
from hpfl.planning.planners import PLANNERS
from hpfl.reporting.compare import compare_command_output
from hpfl.reporting.formats import number
from hpfl.reporting.style import refuse_unknown_kind
from hpfl.reporting.targets import LOSS, Target
from hpfl.training.watching import RunResult

app = typer.Typer(
    name="hpfl",
    help="Hierarchical personalised federated learning over mobile edge networks: plan rounds, simulate them, compare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("plan")(plan_command)
app.command("demo")(demo_command)
app.command("reproduce", epilog="Example: hpfl reproduce time-to-accuracy --quick")(reproduce_command)
register_deployment(app)
app.command("timeline", epilog="Example: hpfl timeline runs/quickstart --rounds 1:20")(timeline_command)
app.command("theory", epilog="Example: hpfl theory runs/quickstart --points 6")(theory_command)

Source = Annotated[str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset (`hpfl presets`) or a TOML file.")]
SystemOption = Annotated[
    str | None, typer.Option("--system", help=f"Run as another system: {', '.join(SYSTEMS)}.", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one key, e.g. data.edge_skew=1. May be repeated."),
]


@app.command("run", epilog="Example: hpfl run quickstart --set planning.planner=random --rounds 50 --out runs/random")
@reported
def run_command(  # noqa: PLR0917  every option is passed by name
    source: Source,
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train over a simulated mobile edge network and write the results to a folder.

    Leaves rounds.jsonl (one line per round), summary.json, config.toml, model.safetensors, ues.csv and figures/.
    Ctrl-C stops after the round and loses nothing.
    """
    config = load(source, system=system, overrides=_overrides(set_, seed, rounds))
    how: dict[str, Any] = {"resume": resume, "force": force, "device": device, "data_dir": data_dir, "quiet": quiet}
    with _folder(source, system, out, config, how) as folder:
        result = run_with_display(config, folder, **how)
    if not quiet:
        _closing_words(config, result, folder)
    if not result.completed:
        raise typer.Exit(130)


@app.command("show", epilog="Example: hpfl show paper-mnist --system hfl > my.toml")
@reported
def show_command(source: Source, system: SystemOption = None, set_: SetOption = None) -> None:
    """Print the whole configuration with units and meanings; it can be saved, changed and run."""
    sys.stdout.write(to_toml(load(source, system=system, overrides=set_ or ())))


@app.command("presets")
@reported
def presets_command() -> None:
    """List the presets, the systems and the planners."""
    console = Console()
    for title, rows in (
        ("Presets", {name: preset_text(name).splitlines()[0].lstrip("# ") for name in preset_names()}),
        ("Systems (--system)", SYSTEMS),
        ("Planners (--set planning.planner=...)", {name: _first_line(PLANNERS.get(name).__doc__) for name in PLANNERS}),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(style="bold", no_wrap=True)
        for name, meaning in rows.items():
            table.add_row(name, meaning)
        console.print(table)
        console.print()


@app.command("compare", epilog="Example: hpfl compare runs/hpfl runs/shpfl --target 0.9")
@reported
def compare_command(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of results.")],
    target: Annotated[
        float | None,
        typer.Option(
            help="Personalised accuracy to time, a share up to 1.",
            show_default="the configured one if all have it and reach it, else the highest that all reach",
        ),
    ] = None,
    target_loss: Annotated[
        float | None,
        typer.Option(help="Personalised test loss to time instead, as in regression.", show_default=False),
    ] = None,
    figure: Annotated[Path, typer.Option(help="Where to draw, .png, .svg or .pdf.")] = Path("compare.png"),
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per row, with its runs inside, instead of a table.")
    ] = False,
) -> None:
    """Put several runs into one table and one figure.

    Runs whose configurations differ in the seed alone are one row and one line: means over the seeds, with 95 %
    intervals. Ratios are taken seed by seed where seeds are shared.
    """
    if target is not None and not 0 < target <= 1:
        refuse(f"--target is {target:g}; it should be greater than 0 and at most 1, as 0.93 for 93 %")
    if target_loss is not None and not 0 < target_loss < math.inf:
        refuse(f"--target-loss is {target_loss:g}; it should be greater than 0")
    if target is not None and target_loss is not None:
        refuse("--target is an accuracy and --target-loss a loss; wanted one of them")
    wanted = Target(target_loss, LOSS) if target_loss is not None else None if target is None else Target(target)
    refuse_unknown_kind(figure)
    compare_command_output(folders, target=wanted, figure=figure, as_json=as_json)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(hpfl.__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `hpfl` command."""
    app()


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


def _closing_words(config: Config, result: RunResult, folder: Path) -> None:
    console = Console()
    if not result.completed:
        console.print(f"Stopped after round {len(result.rounds)} of {config.training.rounds}. To go on:")
        console.print(f"  hpfl run {folder / 'config.toml'} --resume", soft_wrap=True)
        return
    summary = result.summary
    console.print(f"{len(result.rounds)} rounds, {summary['time_s']:.1f} simulated seconds: {_final_quality(summary)}.")
    if summary["diverged"]:
        console.print(
            "[yellow]The run has diverged:[/yellow] what it had learned is lost again. A smaller learning.outer_lr "
            f"helps (here {config.learning.outer_lr:g}).",
            soft_wrap=True,
        )
    console.print(f"Results in {folder}", soft_wrap=True)


def _final_quality(summary: Mapping[str, Any]) -> str:
    """Accuracies, or where there are none, as in regression, losses."""
    personalised, shared = summary["final_personalised_accuracy"], summary["final_global_accuracy"]
    if personalised is not None and shared is not None:
        return f"personalised accuracy {personalised:.3f}, global {shared:.3f}"
    ours, shared = (number(summary[f"final_{name}"]) for name in ("personalised_test_loss", "test_loss"))
    return f"personalised test loss {ours}, global {shared}"


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", maxsplit=1)[0]
