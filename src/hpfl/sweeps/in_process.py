"""The engine that plays jobs one after another in the process that asks, with all its threads."""

from collections.abc import Sequence
from typing import Any

from hpfl.sweeps.jobs import Course, Job, Playing
from hpfl.sweeps.playing import played


class InProcess:
    """Plays jobs here."""

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_error: Any) -> None:
        """Nothing was started."""

    def run(self, jobs: Sequence[Job], course: Course) -> None:
        """Play all, unless a stop is asked for."""
        for job in jobs:
            if course.should_stop():
                return
            course.begun(job)
            course.ended(job, played(job, _playing(job, course)))


def _playing(job: Job, course: Course) -> Playing:
    return Playing(
        on_round=lambda number: course.round(job, number),
        note=lambda text: course.note(job, text),
        should_stop=course.should_stop,
    )
