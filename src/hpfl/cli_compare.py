"""`hpfl compare`: several runs in one table and one figure."""

import math
from pathlib import Path
from typing import Annotated

import typer

from hpfl.cli_errors import refuse, reported
from hpfl.reporting.compare import compare_command_output
from hpfl.reporting.style import refuse_unknown_kind
from hpfl.reporting.targets import LOSS, Target


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
