"""`hpfl demo`: what scheduling and bandwidth allocation are worth, in a minute, on embedded data."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from hpfl.cli_errors import refuse, reported
from hpfl.cli_folders import RUNS, unused
from hpfl.cli_options import FormatOption, StyleOption, figure_paths
from hpfl.cli_running import run_with_display
from hpfl.config import SYSTEMS, load
from hpfl.reporting.compare import compare_command_output
from hpfl.reporting.looks import drawn_as

_DEFAULT = RUNS / "demo"
_SYSTEMS = ("hpfl", "shpfl")
_HONEST = (
    "To be fair: both pay for the same things, but SHPFL draws its edges and splits the band evenly. All edges with "
    "exact bandwidth (planner full) and top-k updates are about as fast, for more joules (docs/whole-cost.md)."
)


@reported
def demo_command(
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default=str(_DEFAULT))] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each run.", show_default="the preset's")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another network.")] = 0,
    formats: FormatOption = None,
    style: StyleOption = "screen",
) -> None:
    """Train HPFL and SHPFL over the same simulated network, everything charged, and compare the time each needs.

    Both train the same personalised model on the same 200 UEs under 20 edges. HPFL plans who uploads, in how many bits
    and with how many Hz, and who hears; SHPFL takes random edges, ternary updates, and splits the bandwidth evenly.
    """
    figures = figure_paths(None, Path("compare.png"), formats, option="")
    changes = [f"training.seed={seed}", *([f"training.rounds={rounds}"] if rounds is not None else [])]
    if out is None:
        with unused(_DEFAULT) as folder, drawn_as(style, formats or ()):
            _compared(folder, changes, figures)
        return
    for part in (out / system for system in _SYSTEMS):
        if part.is_dir() and any(part.iterdir()):
            refuse(
                f"{part} is not empty, and a demo starts anew: choose another --out, or leave it out for a folder that "
                "does not exist yet"
            )
    with drawn_as(style, formats or ()):
        _compared(out, changes, figures)


def _compared(folder: Path, changes: list[str], figures: list[Path]) -> None:
    console = Console()
    for system in _SYSTEMS:
        config = load("quickstart", system=system, overrides=changes)
        console.print(f"[bold]{system.upper()}[/bold]: {escape(SYSTEMS[system])} (planner {config.planning.planner})")
        if not run_with_display(config, folder / system, title=system.upper()).completed:
            raise typer.Exit(130)
    console.print()
    drawn = [folder / figure for figure in figures]
    compare_command_output([folder / system for system in _SYSTEMS], target=None, figures=drawn, as_json=False)
    console.print(_HONEST)
    console.print("Next: hpfl presets, hpfl show quickstart, docs/tutorial.md")
