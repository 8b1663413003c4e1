"""`hpfl figures`: draw the figures of runs again, in other looks and kinds of file, without running anything."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hpfl.cli_errors import refuse, reported
from hpfl.cli_options import FormatOption, StyleOption
from hpfl.reporting.figures import draw_run
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.style import FiguresUnavailableError


@reported
def figures_command(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of results.")],
    formats: FormatOption = None,
    style: StyleOption = "screen",
) -> None:
    """Draw the figures of runs again into DIR/figures, from the results that are there.

    For a paper: `hpfl figures runs/quickstart --style ieee --format pdf`.
    """
    for folder in folders:
        with drawn_as(style, formats or ()):
            try:
                drawn = draw_run(folder)
            except FiguresUnavailableError as error:
                refuse(str(error))
        Console().print(f"Drawn {', '.join(str(path) for path in drawn)}", soft_wrap=True, highlight=False)
