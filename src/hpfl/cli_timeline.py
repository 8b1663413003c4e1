"""`hpfl timeline`: draw what every edge was doing when, from the results of any run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hpfl.cli_errors import refuse, reported
from hpfl.cli_options import FormatOption, StyleOption, figure_paths
from hpfl.reporting.gantt import draw_timeline
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.style import FiguresUnavailableError


@reported
def timeline_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to draw, .png, .svg or .pdf.", show_default="DIR/figures/timeline.png")
    ] = None,
    rounds: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="Only these rounds, e.g. 1:10.", show_default="all")
    ] = None,
    formats: FormatOption = None,
    style: StyleOption = "screen",
) -> None:
    """Draw a run's timeline: every phase of every edge, and when the cloud aggregated."""
    paths = figure_paths(out, folder / "figures" / "timeline.png", formats, option="--out")
    span = None if rounds is None else _span(rounds)
    for path in paths:
        with drawn_as(style):
            try:
                drawn = draw_timeline(folder, path, span)
            except FiguresUnavailableError as error:
                refuse(str(error))
        Console().print(f"Drawn {drawn}", soft_wrap=True)


def _span(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        span = int(first), int(last)
    except ValueError:
        refuse(f"--rounds {text} is not of the form FIRST:LAST, such as 1:10")
    if not colon or not 1 <= span[0] <= span[1]:
        refuse(f"--rounds {text} should name rounds from 1 on, the first not after the last")
    return span
