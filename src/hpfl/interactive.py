"""`hpfl.run`, as scripts and notebooks call it: with progress, an interrupt that loses nothing, parts as objects."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from hpfl.config import Config, Experiment, with_parts
from hpfl.data.dataset import Dataset
from hpfl.data.federated import FederatedData
from hpfl.experiment import Hooks, run_experiment, warned
from hpfl.reporting.console import RunDisplay, download_progress
from hpfl.reporting.notebook import NotebookDisplay
from hpfl.reporting.shown_result import ShownResult
from hpfl.spreading import Spread, spread_by
from hpfl.stopping import Stop, stopping_after_round
from hpfl.told_errors import LOST, REFUSALS, tell
from hpfl.training.watching import Watcher

OwnSamples = FederatedData | Dataset
"""Data of one's own: UEs' own samples, or samples to be dealt among them."""


def run(
    config: Config | Experiment,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    figures: bool = True,
    device: str = "auto",
    data_dir: str | Path | None = None,
    data: OwnSamples | Callable[[], OwnSamples] | None = None,
    hooks: Hooks | None = None,
    watchers: Sequence[Watcher] = (),
    progress: bool | None = None,
    engine: str | Spread = "local",
    workers: int | None = None,
    **parts: Any,
) -> ShownResult:
    """Train as `config` says and return the results; with `out` they are written there too, with checkpoints.

    `out` must be empty, unless the run in it is to go on (`resume`) or to be replaced (`force`). `figures` draws
    pictures at the end, into `out/figures`. `device` is "cpu", "cuda" or "auto"; `data_dir` is where data sets are
    looked for before they are downloaded. `data` are samples of one's own, or a function that returns them, instead of
    `config.data.dataset`; they bring the number of UEs and edges along. `watchers` are told what happens and change
    nothing. `progress` shows how far it is: by default at a terminal and in a notebook. `engine="ray"` has `workers` of
    a cluster compute, bit for bit the same; a `hpfl.clusters.spread.RaySpread` says more of them. `parts` are given by
    the names of their keys, as names or as objects: `planner=mine, planner_options={"rest": 2}, model=MyNet`.

    The first interrupt ends the run after its round, and what there is is returned; the second stops at once.
    """
    place: dict[str, Any] = {"out": out, "resume": resume, "force": force, "figures": figures}
    kind: dict[str, Any] = {"device": device, "data_dir": data_dir, "data": data() if callable(data) else data}
    try:
        kind["spread"] = spread_by(engine, workers=workers) if isinstance(engine, str) else engine
        config = with_parts(config.written if isinstance(config, Experiment) else config, parts) if parts else config
        with _display(config, progress) as display, _interruptible(display, hooks) as (stop, heard):
            seen = [*watchers, *([] if display is None else [display])]
            result = run_experiment(config, **place, **kind, hooks=heard, watchers=seen)
            if stop.is_asked and not result.completed:
                _said(display)(_left(result, config.training.rounds))
        return result
    except (*REFUSALS, *LOST) as error:
        tell(error)


def in_notebook() -> bool:
    """Whether there is a notebook to draw in."""
    return Console().is_jupyter


def is_shown(progress: bool | None) -> bool:
    """Whether progress is shown: as was said, else at a terminal and in a notebook."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return in_notebook() or terminal if progress is None else progress


@contextmanager
def _display(config: Config | Experiment, progress: bool | None) -> Iterator[RunDisplay | None]:
    """What shows the run; None: nothing does."""
    notebook = in_notebook()
    kind = NotebookDisplay if notebook else RunDisplay
    with kind(total_rounds=config.training.rounds) if is_shown(progress) else nullcontext() as display:
        yield display


@contextmanager
def _interruptible(display: RunDisplay | None, hooks: Hooks | None) -> Iterator[tuple[Stop, Hooks]]:
    """The hooks of a run that an interrupt ends after its round, where nobody else has taken interrupts in hand."""
    if hooks is None:
        hooks = Hooks(warn=warned) if display is None else Hooks(note=display.note, download=download_progress())
    with interrupts_taken(_said(display)) as stop:
        ends = hooks.should_stop
        yield stop, replace(hooks, should_stop=lambda: stop.is_asked or ends())


@contextmanager
def interrupts_taken(say: Callable[[str], None]) -> Iterator[Stop]:
    """A stop that the first interrupt asks for, where nobody else has taken interrupts in hand."""
    mine = threading.current_thread() is threading.main_thread()
    mine = mine and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = "interrupt" if in_notebook() else "Ctrl-C"
    asked = stopping_after_round(say, kinds=(signal.SIGINT,), again=again) if mine else nullcontext(Stop())
    with asked as stop:
        yield stop


def _said(display: RunDisplay | None) -> Callable[[str], None]:
    """Where it is said that a run stops: beside its progress, else where errors are."""
    return display.note if display is not None else lambda text: print(text, file=sys.stderr)


def _left(result: ShownResult, rounds: int) -> str:
    where = "" if result.folder is None else "; go on with resume=True"
    return f"stopped after round {len(result.rounds)} of {rounds}: the result has what there is{where}"
