"""Runs what is missing of a study, one after another or side by side, under one bar with the time left."""

import fcntl
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from hpfl.experiment import Hooks
from hpfl.reporting.store import OutputError
from hpfl.studies.parts import StudyPart, done, run_part
from hpfl.training.record import RoundRecord

ShouldStop = Callable[[], bool]
More = Callable[[], Sequence[StudyPart]]
"""All parts by what is known now, those that follow from what has been run included."""
Job = tuple[StudyPart, Path, str, Path | None]


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

    With several workers parts run side by side, but for timed ones, which come last and alone. Whenever all parts are
    done, `more` is asked for all that there are by then.
    """
    with _alone(out), _bar(console) as bar:
        queue = _Queue(parts, out, more)
        course = _Course(bar, bar.add_task(""), should_stop, queue)
        if workers > 1:
            _side_by_side(queue, course, workers=workers, place=(out, device, data_dir))
        while alone := queue.missing():
            _one_by_one(alone, out, course, device=device, data_dir=data_dir)
            if should_stop():
                break
        _tidy(queue.parts, out)
    return not queue.missing(ask=False)


class _Queue:
    """The parts of a study and which of them are missing; more may follow once all known ones are done."""

    def __init__(self, parts: Sequence[StudyPart], out: Path, more: More | None) -> None:
        self.parts, self.out, self.more, self._there = parts, out, more, set[str]()

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
        return [part for part in self.parts if part.name not in self._there]


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep other studies out of the folder: they would take up the same unfinished runs."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"{out} cannot be written to ({error.strerror}); choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            taken = f"another hpfl reproduce is at work in {out}; wait for it, or choose another --out"
            raise OutputError(taken) from error
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
    """Where the study stands: the bar, and whether to go on."""

    def __init__(self, bar: Progress, task: TaskID, should_stop: ShouldStop, queue: _Queue) -> None:
        self.bar, self.task, self.should_stop, self.queue = bar, task, should_stop, queue

    def of(self, missing: int) -> None:
        """So many runs of all that are known now are still to be done."""
        total = len(self.queue.parts)
        self.bar.update(self.task, total=total, completed=total - missing)

    def begin(self, name: str) -> None:
        self.bar.update(self.task, description=name)

    def advance(self, share: float = 1.0) -> None:
        self.bar.advance(self.task, share)


def _one_by_one(parts: Sequence[StudyPart], out: Path, course: _Course, *, device: str, data_dir: Path | None) -> None:
    course.of(len(parts))
    for part in parts:
        if course.should_stop():
            return
        course.begin(part.name)
        share = 1.0 / part.config.training.rounds
        seen: list[int] = []

        def on_round(record: RoundRecord, share: float = share, seen: list[int] = seen) -> None:
            seen.append(record.round)
            course.advance(share)

        hooks = Hooks(on_round=on_round, should_stop=course.should_stop)
        run_part(part, out, device=device, data_dir=data_dir, hooks=hooks)
        course.advance(1.0 - share * len(seen))


def _side_by_side(queue: _Queue, course: _Course, *, workers: int, place: tuple[Path, str, Path | None]) -> None:
    """Keep `workers` processes busy; at a stop those at work end after their round, and no other is begun."""
    parts = [part for part in queue.missing() if not part.timed]
    if not parts:
        return
    context = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU
    stop = context.Event()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_worker, initargs=(stop,)) as pool:
        try:
            while parts and not stop.is_set():
                course.of(len(queue.missing(ask=False)))
                _submit(pool, [(part, *place) for part in parts], course, stop, workers=workers)
                parts = [] if stop.is_set() else [part for part in queue.missing() if not part.timed]
        except BaseException:  # an error, or a second Ctrl-C: those at work are not waited for to their ends
            stop.set()
            raise


def _submit(pool: ProcessPoolExecutor, jobs: Sequence[Job], course: _Course, stop: Event, *, workers: int) -> None:
    """Run the jobs, as many at a time as there are workers, until all are done or a stop is asked for."""
    waiting = iter(jobs)
    busy = {pool.submit(_job, job) for job in islice(waiting, workers)}
    while busy:
        ready, busy = wait(busy, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        if course.should_stop():
            stop.set()
        for future in ready:
            name, whole = future.result()
            course.begin(name)
            course.advance(whole)
            job = None if stop.is_set() else next(waiting, None)
            if job is not None:
                busy.add(pool.submit(_job, job))


_LOOK_S = 0.5
"""How often it is looked whether to stop: a signal does not wake who waits for other processes."""
_stopped: Callable[[], bool] = lambda: False  # noqa: E731
"""In a process at work: whether the parent says stop."""


def _job(job: Job) -> tuple[str, bool]:
    """Run it; its name, and whether it is done. What only a probe knows is not kept, so that those are let end."""
    part, out, device, data_dir = job
    hooks = Hooks() if part.probe else Hooks(should_stop=_stopped)
    run_part(part, out, device=device, data_dir=data_dir, hooks=hooks)
    return part.name, done(part, out) is not None


def _worker(stop: Event) -> None:
    """One thread each; a Ctrl-C is the parent's to answer, who passes it on; with the parent killed, none goes on."""
    global _stopped  # noqa: PLW0603  an event reaches a process only when it starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _stopped = stop.is_set
    threading.Thread(target=_die_with_the_parent, daemon=True).start()


def _die_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _bar(console: Console | None) -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console or Console(stderr=True),
    )
