"""`hpfl compare`: several runs in one table and one figure."""

import math
from pathlib import Path
from typing import Annotated

import typer

from hpfl.cli_errors import refuse, reported
from hpfl.cli_options import FormatOption, StyleOption, figure_paths
from hpfl.reporting.compare import compare_command_output
from hpfl.reporting.looks import drawn_as
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
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw, .png, .svg or .pdf.", show_default="compare.png")
    ] = None,
    formats: FormatOption = None,
    style: StyleOption = "screen",
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Write the table here too, one row per group, for pandas and spreadsheets.", show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per row, with its runs inside, instead of a table.")
    ] = False,
) -> None:
    """Put several runs into one table and one figure.

    Runs whose configurations differ in the seed alone are one group, one row and one line: means over the seeds, with
    95 % intervals. Ratios are taken seed by seed, over the seeds that two groups share; where they share none there is
    no ratio. `hpfl compare runs/*` takes all runs of a folder; thirty runs of five planners are five lines.
    """
    if target is not None and not 0 < target <= 1:
        refuse(f"--target is {target:g}; it should be greater than 0 and at most 1, as 0.93 for 93 %")
    if target_loss is not None and not 0 < target_loss < math.inf:
        refuse(f"--target-loss is {target_loss:g}; it should be greater than 0")
    if target is not None and target_loss is not None:
        refuse("--target is an accuracy and --target-loss a loss; wanted one of them")
    wanted = Target(target_loss, LOSS) if target_loss is not None else None if target is None else Target(target)
    figures = figure_paths(figure, Path("compare.png"), formats, option="--figure")
    with drawn_as(style):
        compare_command_output(folders, target=wanted, figures=figures, csv=csv, as_json=as_json)
