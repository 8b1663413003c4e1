"""What a run looks like at the terminal: a live panel, plain lines where output goes elsewhere, or nothing."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpfl.reporting import formats
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Watcher

SILENCE_S = 5.0
"""Without a terminal, rounds between evaluations are mentioned no more often than this."""
MOST_LINES = 50
"""Evaluations that come thicker than this are not all printed."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_EDGES_SHOWN = 60
_LONG_LOSS = 1e5


class RunDisplay(Watcher):
    """Watches one run. A context manager; errors and Ctrl-C pass through, and the terminal is left as it was."""

    def __init__(
        self,
        *,
        total_rounds: int,
        quiet: bool = False,
        title: str = "",
        console: Console | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or Console()
        self._quiet, self._title, self._stopwatch = quiet, title, stopwatch
        self._live: Live | None = None
        self._seen = _Seen(total_rounds, stopwatch())
        self._last_line_s, self._last_line_round = self._seen.began_s, 0

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self.console.is_terminal and not self.console.is_dumb_terminal and not self._quiet

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Show a round that has been played."""
        self.update(record)

    def update(self, record: RoundRecord) -> None:
        """Take notice of a round that has been played."""
        self._seen.take_in(record, self._stopwatch())
        if self.is_live:
            self._start()
        elif not self._quiet and self._worth_a_line(record):
            self._print(_line(self._seen, record))
            self._last_line_s, self._last_line_round = self._stopwatch(), record.round

    def note(self, text: str) -> None:
        """Say something in passing, above the live panel."""
        if not self._quiet:
            self._print(text)

    def __enter__(self) -> Self:
        self._seen.began_s = self._last_line_s = self._stopwatch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start(self) -> None:
        # Started with the first round, so that downloads before it have the terminal to themselves.
        if self._live is None:
            self._live = Live(console=self.console, get_renderable=self._panel, refresh_per_second=8)
            self._live.start()

    def _panel(self) -> Group:
        return _panel(self._seen, self._title, self._stopwatch())

    def _worth_a_line(self, record: RoundRecord) -> bool:
        due, total = self._stopwatch() - self._last_line_s >= SILENCE_S, self._seen.total_rounds
        apart = record.round - self._last_line_round >= total / MOST_LINES
        return due or (apart and record.meta_loss is not None) or record.round == total

    def _print(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)


@dataclass
class _Seen:
    """What a display knows of its run: the last round, the last evaluation, the course of the accuracy, the pace."""

    total_rounds: int
    began_s: float
    record: RoundRecord | None = None
    evaluated: RoundRecord | None = None
    accuracies: list[float] = field(default_factory=list)
    last_edge: int = 0
    ticks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=50))

    def take_in(self, record: RoundRecord, now_s: float) -> None:
        self.ticks.append((now_s, record.round))
        self.record = record
        self.last_edge = max(self.last_edge, *record.scheduled, 0)
        if record.meta_loss is not None:
            self.evaluated = record
        if record.personalised_accuracy is not None:
            self.accuracies.append(record.personalised_accuracy)

    def rounds_per_s(self) -> float | None:
        (before, first), (now, last) = self.ticks[0], self.ticks[-1]
        return (last - first) / (now - before) if now > before else None

    def left_s(self) -> float | None:
        pace = self.rounds_per_s()
        return (self.total_rounds - self.ticks[-1][1]) / pace if pace else None


def _line(seen: _Seen, record: RoundRecord) -> str:
    width = len(str(seen.total_rounds))
    parts = [
        f"round {record.round:>{width}}/{seen.total_rounds}",
        f"{formats.seconds(record.time_s):>11} simulated",
        *_measured(record),
        f"{record.num_scheduled:>2} edge{'' if record.num_scheduled == 1 else 's'}",
        f"staleness {record.max_staleness}",
        formats.rate(seen.rounds_per_s()),
        f"{formats.countdown(seen.left_s())} left",
    ]
    return "  ".join(parts)


def _panel(seen: _Seen, title: str, now_s: float) -> Group:
    record = seen.record
    assert record is not None  # the panel starts with the first record
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="ellipsis", no_wrap=True)
    for name, value in _facts(seen, record).items():
        facts.add_row(name, value)
    head = [Text(title, style="bold")] if title else []
    return Group(*head, _bar(seen, record, now_s), facts)


def _bar(seen: _Seen, record: RoundRecord, now_s: float) -> Table:
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right")
    total = seen.total_rounds
    pace = f"{formats.rate(seen.rounds_per_s())} · {formats.countdown(seen.left_s())} left"
    bar.add_row(
        f"round {record.round}/{total}",
        ProgressBar(total, record.round, complete_style="green", finished_style="green"),
        pace if record.round < total else f"done in {formats.seconds(now_s - seen.began_s)}",
    )
    return bar


def _facts(seen: _Seen, record: RoundRecord) -> dict[str, Text | str]:
    clock = f"{formats.seconds(record.time_s)}, this round {formats.seconds(record.latency_s)}"
    facts: dict[str, Text | str] = {"simulated clock": clock}
    measured = seen.evaluated
    if measured is not None:
        facts["loss"] = f"{measured.meta_loss:.4f} personalised, {_or_unknown(measured.loss)} global"
    if measured is not None and measured.personalised_accuracy is not None:
        facts["accuracy"] = _accuracy_text(measured, seen.accuracies)
    facts["edges"] = _edges_text(record, seen.last_edge)
    facts["staleness"] = f"{record.max_staleness} at most, {record.mean_staleness:.1f} on average"
    return facts


def _accuracy_text(measured: RoundRecord, accuracies: list[float]) -> Text:
    rest = f"{formats.share(measured.global_accuracy)} global"
    worst = f"worst decile {formats.share(measured.personalised_accuracy_p10)}"
    text = Text(formats.share(measured.personalised_accuracy), style="bold green")
    text.append(f" personalised, {rest}, {worst}", style="default not bold")
    return text.append(f"  {sparkline(accuracies)}", style="green not bold")


def _edges_text(record: RoundRecord, last_edge: int) -> Text:
    text = Text(f"{record.num_scheduled} scheduled")
    if last_edge >= _EDGES_SHOWN:
        return text
    text.append("  ")
    for edge in range(last_edge + 1):
        text.append("■" if edge in record.scheduled else "·", style="cyan" if edge in record.scheduled else "dim")
    return text


def sparkline(values: list[float], width: int = 24) -> str:
    """The course of `values` in one line of blocks, low to high."""
    if not values:
        return ""
    chosen = [values[index * len(values) // min(width, len(values))] for index in range(min(width, len(values)))]
    low, span = min(values), max(values) - min(values)
    return "".join(_BLOCKS[int((value - low) / span * 7.999)] if span else _BLOCKS[0] for value in chosen)


def download_progress(*, quiet: bool = False, console: Console | None = None) -> Callable[[str, int, int], None]:
    """A callback for downloads, `callback(name, done_bytes, total_bytes)`; a total of 0 means unknown.

    On a terminal one line is rewritten in place, without hiding the cursor, so a failed download leaves no mess.
    """
    screen = console or Console()
    told: dict[str, float] = {}

    def tell(name: str, done_bytes: int, total_bytes: int) -> None:
        finished = 0 < total_bytes <= done_bytes
        now = time.monotonic()
        if quiet or not _due(told.get(name), now, finished, 0.1 if screen.is_terminal else SILENCE_S):
            return
        told[name] = float("inf") if finished else now
        line = _download_line(name, done_bytes, total_bytes)
        if screen.is_terminal:
            screen.file.write(f"\r\x1b[2K{line}{chr(10) if finished else ''}")
            screen.file.flush()
        else:
            screen.print(line, soft_wrap=True, markup=False, highlight=False)

    return tell


def _due(last: float | None, now: float, finished: bool, interval_s: float) -> bool:
    if last is None or last == float("inf"):
        return last is None or not finished
    return finished or now - last >= interval_s


def _download_line(name: str, done: int, total: int) -> str:
    size = f"{done / 1e6:.1f} MB" if total <= 0 else f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
    filled = 24 * min(done, total) // total if total > 0 else 0
    bar = f"  {'━' * filled}{'╌' * (24 - filled)}" if total > 0 else ""
    return f"downloading {name}{bar}  {size}"


def _measured(record: RoundRecord) -> list[str]:
    if record.meta_loss is None:
        return []
    if record.personalised_accuracy is None:
        return [f"loss {_loss(record.meta_loss)}"]
    accuracy = f"accuracy {formats.share(record.personalised_accuracy)}"
    return [f"loss {_loss(record.meta_loss)}", f"{accuracy} (global {formats.share(record.global_accuracy)})"]


def _loss(value: float) -> str:
    return f"{value:.4f}" if abs(value) < _LONG_LOSS else f"{value:.3g}"


def _or_unknown(value: Any) -> str:
    return formats.UNKNOWN if value is None else f"{value:.4f}"
