"""What many runs look like while they go on: one bar with what is left, the runs at work below it; else plain lines."""

import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpfl.reporting import formats
from hpfl.reporting.console import SILENCE_S
from hpfl.reporting.notebook import RENEWED_S, drawn
from hpfl.sweeps.standing import Standing

MOST_AT_WORK = 8
"""Runs at work that are named; more are counted."""


class SweepDisplay:
    """Shows where many runs stand. A context manager; the terminal is left as it was."""

    def __init__(self, *, console: Console | None = None, quiet: bool = False, notebook: bool = False) -> None:
        self.console, self.quiet, self.notebook = console or Console(), quiet, notebook
        self.standing, self.headline = Standing(), ""
        self._live: Live | None = None
        self._said: set[str] = set()
        self._renewed_s = -math.inf
        self._redraw: Callable[..., None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif self.notebook and self._redraw is not None:
            self._draw()

    def show(self, standing: Standing) -> None:
        """Begin to show how many runs stand; or go on, with more of them."""
        self.standing = standing
        self.renew()

    def renew(self) -> None:
        """Something has changed."""
        if self.quiet or self.console.quiet:
            return
        now = self.standing.stopwatch()
        if self.notebook:
            if now - self._renewed_s >= RENEWED_S:
                self._renewed_s = now
                self._draw()
        elif self.console.is_terminal and not self.console.is_dumb_terminal:
            self._start()
        elif now - self._renewed_s >= SILENCE_S:
            self._renewed_s = now
            self._print(line(self.standing) + (f"; {self.headline}" if self.headline else ""))

    def note(self, text: str) -> None:
        """Say something in passing; the same thing only once, for all runs say it."""
        if text not in self._said and not self.quiet:
            self._said.add(text)
            self._print(text)

    def _print(self, text: str) -> None:
        if self.notebook:
            print(text)
        else:
            self.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=8)
            self._live.start()

    def _panel(self) -> Group:
        return panel(self.standing, self.headline)

    def _draw(self) -> None:
        """The panel as it is now, in the place of the one before."""
        from IPython.display import display  # here only in a notebook

        media: Any = drawn(self._panel())
        if self._redraw is None:
            self._redraw = display(media, raw=True, display_id=True).update  # type: ignore[no-untyped-call]
        else:
            self._redraw(media, raw=True)


def line(standing: Standing) -> str:
    """`12 of 36 runs, 2 at work, 1:20 left`."""
    left = f", {formats.countdown(standing.left_s)} left" if standing.left_s is not None else ""
    return f"{standing.ended} of {standing.total} runs, {len(standing.at_work)} at work{left}"


def panel(standing: Standing, headline: str = "") -> Group:
    """The bar, under it what they have come to, if that is said, and the runs at work with their rounds."""
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right")
    whole = standing.ended >= standing.total
    bar.add_row(
        f"{standing.ended} of {standing.total} runs",
        ProgressBar(max(standing.total, 1), standing.done_share, complete_style="green", finished_style="green"),
        "done" if whole else f"{formats.countdown(standing.left_s)} left",
    )
    runs = Table.grid(padding=(0, 2))
    for name, (number, rounds) in list(standing.at_work.items())[:MOST_AT_WORK]:
        runs.add_row(Text(f"  round {number}/{rounds}", style="dim"), Text(name))
    more = len(standing.at_work) - MOST_AT_WORK
    found = [Text(f"  {headline}")] if headline else []
    return Group(bar, *found, runs, *([Text(f"  and {more} more", style="dim")] if more > 0 else []))
