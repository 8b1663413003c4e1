"""`hpfl sweep`: many runs from one line or one file, side by side, and what they come to."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

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
    SetOption,
    SharedGpusOption,
    SideBySideOption,
    StyleOption,
)
from hpfl.cli_results import failures, shown
from hpfl.config import check_key, toml_value
from hpfl.reporting.looks import drawn_as
from hpfl.stopping import stopping_after_round
from hpfl.sweeps.study_file import SweepStudy, flat, is_study, read_study, study_of
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import STUDY, BasedStudy, base_of, home_of
from hpfl.sweeps.sweep_page import PAGE
from hpfl.sweeps.sweep_plan import Sweep, planned, usual_folder
from hpfl.sweeps.sweeping import Cluster, Means, SweepResult, carry_out


@reported
def sweep_command(  # noqa: PLR0917  every option is passed by name
    source: Annotated[
        str, typer.Argument(metavar="PRESET_OR_FILE", help="A preset, a configuration's TOML file, or a study's.")
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION.KEY=V1,V2,...",
            help="An axis of the grid; given several times, every value with every other. Values may be parts.",
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="How many seeds, or which: 5, or 0,1,7.", show_default="5")] = None,
    set_: SetOption = None,
    targets: Annotated[
        str | None,
        typer.Option(
            help="Personalised accuracies to time, as 0.9,0.95; loss:0.12 for a test loss.",
            show_default="the configured one",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECTION.KEY=VALUE",
            help="The value of an axis that others are set against, seed by seed; or case=NAME. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for everything.", show_default="runs/NAME-sweep, or -2, ...")
    ] = None,
    workers: SideBySideOption = 0,
    engine: EngineOption = "local",
    gpus: SharedGpusOption = 0,
    cpus_per_run: RunCpusOption = 1,
    gpus_per_run: RunGpusOption = 0.0,
    address: AddressOption = None,
    device: RunDeviceOption = "auto",
    data_dir: DataPlaceOption = None,
    keep_stale: Annotated[
        bool, typer.Option("--keep-stale", help="Take runs that another version has made as they are.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Run nothing; make everything of the runs there are.")
    ] = False,
    formats: FormatOption = None,
    style: StyleOption = "screen",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Run every combination of what is varied with several seeds; leave results, tables, figures and a page.

    All runs are checked before the first begins. In OUT: results.csv and results.parquet (one row per run), table.md
    and table.tex (means with 95 % intervals, ratios to a baseline), figures/, index.html with all of it, study.toml,
    and under runs/ every run whole. Ctrl-C stops after the round; the same command goes on, also after a kill. Runs
    that are there are not run again, unless what computes them has changed. hpfl watch OUT shows them all.

    A study's file says the same in TOML: base, seeds, targets, baseline, and tables grid (every value with every
    other), zip (keys that change together), cases (settings by name) and set (in all runs). docs/sweep.md shows one.
    """
    given = {"vary": vary, "set": set_, "seeds": seeds, "targets": targets, "baseline": baseline}
    based = _based(source, given)
    folder = out or home_of(Path(source)) or usual_folder(Path(source).stem, based)
    cluster = Cluster(cpus_per_run=cpus_per_run, gpus_per_run=gpus_per_run, address=address or "")
    means = Means(
        engine=engine,
        workers=workers,
        gpus=gpus,
        cluster=cluster,
        device=device,
        data_dir=data_dir,
        run=not no_run,
    )
    console = Console(quiet=quiet)
    plan = planned(based, folder, keep_stale=keep_stale)
    _announce(plan, console)
    display = SweepDisplay(console=console, quiet=quiet)
    with display, stopping_after_round(display.note) as stop, drawn_as(style, formats or ()):
        result = carry_out(plan, means, display, should_stop=lambda: stop.is_asked)
    _report(result, plan, console)


def _based(source: str, given: dict[str, Any]) -> BasedStudy:
    """The study of a file or of options; options win over a file's words, and add to what it sets and varies."""
    path = Path(source)
    from_file = path.is_file() and is_study(path)
    tree: dict[str, Any] = read_study(path).to_tree() if from_file else {"base": source}
    for name, key in (("vary", "grid"), ("set", "set")):
        if given[name]:
            tree[key] = {**tree.get(key, {}), **_pairs(given[name], f"--{name}", several=name == "vary")}
    if given["seeds"]:
        tree["seeds"] = _seeds(given["seeds"])
    if given["targets"]:
        tree["targets"] = [_target(text) for text in given["targets"].split(",")]
    if given["baseline"]:
        tree["baseline"] = flat(_pairs(given["baseline"], "--baseline"))
    study: SweepStudy = study_of(tree, where=source)
    return BasedStudy(study=study, base=base_of(study, path.parent if from_file else Path()))


def _pairs(texts: Sequence[str], option: str, *, several: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (word.strip() for word in text.partition("="))
        if not equals or not value:
            wanted = "section.key=value,value,..." if several else "section.key=value"
            refuse(f"{option} {text} is not of the form {wanted}")
        if key in found:
            refuse(f"{option} has {key} twice; give all its values at once: {key}=v1,v2")
        if key != "case":
            check_key(key)
        found[key] = [toml_value(word) for word in split_values(value)] if several else toml_value(value)
    return found


def split_values(text: str) -> Iterator[str]:
    """Words between commas, but for those within quotes and brackets."""
    depth, quote, word = 0, "", ""
    for letter in text:
        if letter == "," and not depth and not quote:
            yield word.strip()
            word = ""
            continue
        if letter in "\"'":
            quote = "" if quote == letter else quote or letter
        elif not quote:
            depth += (letter in "[{") - (letter in "]}")
        word += letter
    yield word.strip()


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        refuse(f"--seeds is {text}; wanted how many, as 5, or which, as 0,1,7")
    return numbers if "," in text else numbers[0]


def _target(text: str) -> Any:
    is_loss, number = text.strip().startswith("loss:"), text.strip().removeprefix("loss:")
    try:
        return {"loss": float(number)} if is_loss else float(number)
    except ValueError:
        refuse(f"--targets has {text}; wanted accuracies as 0.9,0.95, or loss:0.12")


def _announce(plan: Sweep, console: Console) -> None:
    cells, seeds = len(plan.cells), len(plan.based.study.seed_list)
    what = f"{cells} cell{'s' * (cells != 1)} with {seeds} seed{'s' * (seeds != 1)} each: {len(plan.parts)} runs"
    console.print(f"{what}, in {plan.out}", soft_wrap=True, highlight=False, markup=False)


def _report(result: SweepResult, plan: Sweep, console: Console) -> None:
    screen = console if console.is_terminal else Console(file=console.file, width=200, quiet=console.quiet)
    for table in result.tables:
        screen.print(shown(table, width=screen.width))
    if result.tables:
        console.print(f"Page in {plan.out / PAGE}", soft_wrap=True, highlight=False)
    again = shlex.join(["hpfl", "sweep", str(plan.out / STUDY)])
    if result.left.missing:
        there = len(plan.parts) - len(result.left.missing) - len(result.left.failed)
        console.print(f"Stopped: {there} of {len(plan.parts)} runs are done. To go on:\n  {again}", soft_wrap=True)
        raise typer.Exit(130)
    if result.left.failed:
        leave(failures(result.left.failed), status=1)
    if not result.swept.runs:
        console.print(f"No run has ended yet. To run them:\n  {again}", soft_wrap=True)
