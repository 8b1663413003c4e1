"""Runs what is missing of a study with an engine, under one display; more runs may follow from those that are done."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from hpfl.reporting.store import OutputError
from hpfl.sweeps.in_process import InProcess
from hpfl.sweeps.jobs import Job, JobEngine, JobOutcome
from hpfl.sweeps.local_engine import LocalEngine
from hpfl.sweeps.part_run import job_of
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.standing import Standing
from hpfl.sweeps.sweep_display import SweepDisplay

ShouldStop = Callable[[], bool]
More = Callable[[], Sequence[StudyPart]]
"""All parts by what is known now, those that follow from what has been run included."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the runs of a study lie, and what they are computed on and from."""

    out: Path
    device: str = "auto"
    data_dir: Path | None = None
    gpus_each: float = 0.0
    """The share of a GPU that a run is given, where an engine gives any."""


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """What is left of a study: runs that were stopped or not begun, and what is said of those that failed."""

    missing: Sequence[str] = ()
    failed: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.missing or self.failed)


def run_parts(
    parts: Sequence[StudyPart],
    out: Path,
    *,
    device: str = "auto",
    data_dir: Path | None = None,
    workers: int = 1,
    should_stop: ShouldStop = lambda: False,
    console: Console | None = None,
    more: More | None = None,
) -> bool:
    """Run what is missing under `out`; whether all parts are there now. Interrupted, it goes on where it stopped.

    With several workers parts run side by side, but for timed ones, which come last and alone; with one, here. The
    first run that fails ends it. Whenever all parts are done, `more` is asked for all that there are by then.
    """
    place = Place(out=out, device=device, data_dir=data_dir)
    engine: JobEngine = LocalEngine(workers) if workers > 1 else InProcess()
    with alone(out), SweepDisplay(console=console or Console(stderr=True)) as display:
        left = play_parts(parts, place, engine, display, should_stop=should_stop, more=more)
    return not left


def play_parts(
    parts: Sequence[StudyPart],
    place: Place,
    engine: JobEngine,
    display: SweepDisplay,
    *,
    should_stop: ShouldStop = lambda: False,
    more: More | None = None,
    go_on: bool = False,
    failed: dict[str, str] | None = None,
    to_come: Callable[[], int] = lambda: 0,
) -> Unfinished:
    """Run what is missing with an engine; what is left then. With `go_on` the others go on where a run fails.

    `failed` hears of those as they fail, so that `more` may go by it; `to_come` says how many runs may follow.
    """
    with engine:
        course = _Course(display, should_stop, go_on=go_on, failed={} if failed is None else failed)
        queue = _Queue(parts, place.out, more, course.failed)
        while missing := queue.missing():
            course.of(queue.parts, missing, to_come())
            together = [part for part in missing if not part.timed]
            how = engine if together else InProcess()
            how.run([_job(part, place) for part in together or missing], course)
            if should_stop():
                break
            course.refuse_undone()
        _tidy(queue.parts, place.out)
        left = queue.missing(ask=False)
    return Unfinished(missing=[part.name for part in left], failed=course.failed)


def _job(part: StudyPart, place: Place) -> Job:
    return job_of(part, place.out, device=place.device, data_dir=place.data_dir, gpus=place.gpus_each)


class _Queue:
    """The parts of a study and which of them are missing; more may follow once all known ones are done or failed."""

    def __init__(self, parts: Sequence[StudyPart], out: Path, more: More | None, failed: Mapping[str, str]) -> None:
        self.parts, self.out, self.more, self.failed, self._there = parts, out, more, failed, set[str]()

    def missing(self, *, ask: bool = True) -> list[StudyPart]:
        """What is to be run now; where nothing is, it is asked whether more follows."""
        found = self._missing()
        if found or self.more is None or not ask:
            return found
        self.parts = self.more()
        return self._missing()

    def _missing(self) -> list[StudyPart]:
        """What is not on disk; what was found there once is not looked for again."""
        self._there |= {part.name for part in self.parts if part.name not in self._there and done(part, self.out)}
        return [part for part in self.parts if part.name not in self._there and part.name not in self.failed]


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep others out of the folder: they would take up the same unfinished runs."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"{out} cannot be written to ({error.strerror}); choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            taken = f"another hpfl sweep, hpfl tune or hpfl reproduce is at work in {out}"
            raise OutputError(f"{taken}; wait for it, or choose another --out") from error
        yield


def _tidy(parts: Iterable[StudyPart], out: Path) -> None:
    """Remove what was kept of runs that are done now, and the folders that are empty then."""
    for part in parts:
        if part.kept(out).exists() and done(part, out) is not None:
            shutil.rmtree(part.kept(out))
    for folder, _, _ in os.walk(out / "unfinished", topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def results(parts: Iterable[StudyPart], out: Path) -> list[dict[str, Any]]:
    """What the parts that are there left, each with the labels by which it is asked for here: studies share runs."""
    every = ((part, done(part, out)) for part in parts)
    return [{**found, "labels": dict(part.labels)} for part, found in every if found is not None]


class _Course:
    """Where the study stands, for a display; a run that fails ends it, unless it is to go on."""

    def __init__(self, display: SweepDisplay, should_stop: ShouldStop, *, go_on: bool, failed: dict[str, str]) -> None:
        self.display, self.should_stop, self.go_on, self.failed = display, should_stop, go_on, failed
        self._undone: set[str] = set()

    def of(self, parts: Sequence[StudyPart], missing: Sequence[StudyPart], to_come: int) -> None:
        """So many runs of all that are known now are still to be done, and as long ones may follow."""
        rounds = sum(part.config.training.rounds for part in missing)
        rounds += round(to_come * rounds / len(missing))
        total, ended = len(parts) + to_come, len(parts) - len(missing)
        self.display.show(Standing(total=total, ended=ended, rounds_left=rounds))

    def begun(self, job: Job) -> None:
        self.display.standing.begun(job.name, job.rounds)
        self.display.renew()

    def round(self, job: Job, number: int) -> None:
        self.display.standing.played(job.name, number)
        self.display.renew()

    def note(self, job: Job, text: str) -> None:
        self.display.note(text)

    def ended(self, job: Job, outcome: JobOutcome) -> None:
        self.display.standing.over(job.name, done=outcome.done)
        self.display.renew()
        if outcome.error:
            self._fail(job.name, outcome.error)
        elif not outcome.done:
            self._undone.add(job.name)

    def refuse_undone(self) -> None:
        """A run that nobody stopped and that left no results would be begun for ever."""
        for name in sorted(self._undone):
            self._fail(name, "it ended without results")

    def _fail(self, name: str, error: str) -> None:
        if not self.go_on:
            raise OutputError(f"{name}: {error}")
        self.failed[name] = error
