"""Running an experiment at a terminal: live display, and a Ctrl-C that waits for the round."""

from pathlib import Path
from typing import Any

from hpfl.config import Config
from hpfl.experiment import Hooks, run_experiment
from hpfl.reporting.console import RunDisplay, download_progress
from hpfl.spreading import Spread
from hpfl.stopping import stopping_after_round
from hpfl.training.watching import RunResult


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
    spread: Spread | None = None,
) -> RunResult:
    """Run with a live display."""
    display = RunDisplay(total_rounds=config.training.rounds, title=title, quiet=quiet)
    place: dict[str, Any] = {"out": folder, "resume": resume, "force": force, "device": device, "data_dir": data_dir}
    place["spread"] = spread
    with display, stopping_after_round(display.note) as stop:
        hooks = Hooks(should_stop=lambda: stop.is_asked, note=display.note, download=download_progress(quiet=quiet))
        return run_experiment(config, **place, hooks=hooks, watchers=[display])
