"""Which job is next: in their order, but towards the end the longest first, so that no worker waits for a late one."""

import time
from collections import deque
from collections.abc import Callable

from hpfl.sweeps.jobs import Job

AHEAD = 2
"""Jobs for each worker that are left when the order begins to matter."""


class JobOrder:
    """Remembers how long jobs took, by what they are alike in; of a kind that has not ended, nothing is known."""

    def __init__(self, stopwatch: Callable[[], float] = time.monotonic) -> None:
        self._stopwatch = stopwatch
        self._begun: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def begun(self, job: Job) -> None:
        """A worker has taken it up."""
        self._begun[job.name] = self._stopwatch()

    def ended(self, job: Job) -> None:
        """It is over."""
        self._took[job.like] = self._stopwatch() - self._begun.pop(job.name)

    def next(self, waiting: deque[Job], workers: int) -> Job:
        """The job to be taken up now, taken out of those that wait; unknown kinds count as the longest."""
        if len(waiting) > AHEAD * workers:
            return waiting.popleft()
        longest = max(waiting, key=lambda job: self._took.get(job.like, float("inf")))
        waiting.remove(longest)
        return longest
