"""Running an experiment at a terminal: live display, and a Ctrl-C that waits for the round."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from hpfl.config import Config
from hpfl.experiment import Hooks, RunResult, run
from hpfl.reporting.console import RunDisplay, download_progress


def run_with_display(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    data_dir: Path | None = None,
    quiet: bool = False,
    title: str = "",
) -> RunResult:
    """Run with a live display."""
    display = RunDisplay(total_rounds=config.training.rounds, title=title, quiet=quiet)
    with display, stopping_after_round(display.note) as stops:
        hooks = Hooks(
            on_round=display.update,
            should_stop=lambda: bool(stops),
            note=display.note,
            download=download_progress(quiet=quiet),
        )
        return run(config, out=folder, resume=resume, force=force, device=device, data_dir=data_dir, hooks=hooks)


@contextmanager
def stopping_after_round(say: Callable[[str], None]) -> Iterator[list[int]]:
    """A list that stops being empty on the first Ctrl-C or SIGTERM; the second one interrupts at once."""
    received: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        say("stopping after this round (Ctrl-C again to stop at once)")

    for kind in kinds:
        signal.signal(kind, on_signal)
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
