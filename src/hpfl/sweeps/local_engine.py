"""The engine of one machine: worker processes, started once, with one thread each, and replaced if they are killed."""

import os
import selectors
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from hpfl.config import ConfigError
from hpfl.sweeps.jobs import Course, Job, JobOutcome
from hpfl.sweeps.nursery import Nursery, any_nursery
from hpfl.sweeps.order import JobOrder
from hpfl.sweeps.worker_process import WorkerProcess

LOOK_S = 0.2
"""How often it is looked whether to stop."""
MOST_TRIES = 3
"""Processes that one job may cost before it is given up."""
MOST_WORKERS = 8
"""Processes that are taken unasked; each holds its data."""
_PATIENCE_S = 5.0


class LocalEngine:
    """Plays jobs in `workers` processes (0: one for each core, at most 8), which share out `gpus` GPUs."""

    def __init__(self, workers: int = 0, *, gpus: int = 0) -> None:
        _refuse_missing_gpus(gpus)
        self.workers, self.gpus = workers or usual_workers(), gpus
        self._started: list[WorkerProcess] = []
        self._nurseries: list[Nursery] = []  # of which the last one forks, and the others were killed
        self._order = JobOrder()

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: Any) -> None:
        for worker in self._started:
            if kind is None:
                worker.say(end=True)
            else:
                worker.dismiss()
        until = time.monotonic() + _PATIENCE_S
        for worker in self._started:
            worker.close(patience_s=max(0.0, until - time.monotonic()))
        self._started.clear()
        for nursery in self._nurseries:
            nursery.close()
        self._nurseries.clear()

    def run(self, jobs: Sequence[Job], course: Course) -> None:
        """Play all; a job whose process was killed is begun again by another one, from what it has written."""
        waiting, tries, told = deque(jobs), Counter[str](), False
        with selectors.DefaultSelector() as ears:
            for worker in self._started:
                ears.register(worker.answers, selectors.EVENT_READ, worker)
            while waiting or any(worker.job for worker in self._started):
                if not told and course.should_stop():
                    told = True
                    self._hear_all(0.0, course, waiting, tries, ears)
                    waiting.clear()
                    self._stop()
                self._hand_out(waiting, course, ears)
                self._hear_all(LOOK_S, course, waiting, tries, ears)
                if told:
                    waiting.clear()

    def _stop(self) -> None:
        """Those at work end after their round; one that has nothing to lose ends at once."""
        for worker in self._started:
            if worker.job is None or worker.has_something_to_lose:
                worker.say(stop=True)
            else:
                worker.dismiss()

    def _hand_out(self, waiting: deque[Job], course: Course, ears: selectors.BaseSelector) -> None:
        """Every worker that has nothing to do gets a job; workers are started as they are needed."""
        while waiting:
            idle = next((worker for worker in self._started if worker.job is None), None)
            if idle is None:
                if len(self._started) >= self.workers:
                    return
                idle = self._start()
                ears.register(idle.answers, selectors.EVENT_READ, idle)
            idle.play(job := self._order.next(waiting, self.workers))
            self._order.begun(job)
            course.begun(job)

    def _start(self) -> WorkerProcess:
        taken = {worker.number for worker in self._started}
        number = next(number for number in range(self.workers) if number not in taken)
        gpu = str(number % self.gpus) if self.gpus else None
        if not self._nurseries or not self._nurseries[-1].lives:
            self._nurseries.append(any_nursery())
        worker = WorkerProcess(number, self._nurseries[-1], path=sys.path, gpu=gpu)
        self._started.append(worker)
        return worker

    def _hear_all(
        self,
        patience_s: float,
        course: Course,
        waiting: deque[Job],
        tries: Counter[str],
        ears: selectors.BaseSelector,
    ) -> None:
        for key, _ in ears.select(patience_s):
            self._hear(key.data, course, waiting, tries, ears)

    def _hear(
        self,
        worker: WorkerProcess,
        course: Course,
        waiting: deque[Job],
        tries: Counter[str],
        ears: selectors.BaseSelector,
    ) -> None:
        said = worker.heard()
        if said is None:
            ears.unregister(worker.answers)
            self._started.remove(worker)
            self._lost(worker, worker.job, course, waiting, tries)
            return
        for each in said:
            job = worker.job
            assert job is not None  # it speaks of its job alone
            if "round" in each:
                worker.round = each["round"]
                course.round(job, each["round"])
            elif "note" in each:
                course.note(job, each["note"])
            else:
                worker.job = None
                self._order.ended(job)
                course.ended(job, JobOutcome(**each["ended"]))

    def _lost(
        self, worker: WorkerProcess, job: Job | None, course: Course, waiting: deque[Job], tries: Counter[str]
    ) -> None:
        """A process is gone: its job is begun again, unless that has cost too many already."""
        how = worker.last_words()
        worker.close()
        if job is None:
            return
        if worker.is_dismissed:
            course.ended(job, JobOutcome(done=False))
            return
        tries[job.name] += 1
        if tries[job.name] < MOST_TRIES:
            course.note(job, f"the process of {job.name} {how.splitlines()[0]}; another takes it up")
            waiting.appendleft(job)
        else:
            course.ended(job, JobOutcome(done=False, error=f"{MOST_TRIES} processes died over it; the last {how}"))


def usual_workers() -> int:
    """One for each core, at most eight."""
    return min(os.cpu_count() or 1, MOST_WORKERS)


def _refuse_missing_gpus(asked: int) -> None:
    if not asked:
        return
    import torch

    there = torch.cuda.device_count()
    if asked > there:
        raise ConfigError(f"--gpus is {asked}; PyTorch finds {there or 'no'} CUDA device{'s' * (there != 1)} here")
