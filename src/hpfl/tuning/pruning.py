"""When a run is behind: the median, at every moment, of the best values that finished trials had by then."""

import statistics
from collections.abc import Sequence
from typing import Any

from hpfl.reporting.targets import Row

MOST_MOMENTS = 200
FIRST = 3
"""The evaluation with which runs begin to be compared: the first ones are luck."""

BestSoFar = tuple[Sequence[float], Sequence[float]]
"""Moments, and the best value by each."""


def course_of(rows: Sequence[Row], *, by: str, metric: str, less: bool) -> BestSoFar:
    """The best value so far of a run, at each of its evaluations."""
    moments, best = list[float](), list[float]()
    for row in rows:
        value = row.get(metric)
        if value is not None:
            moments.append(row[by])
            held = best[-1] if best else value
            best.append(min(held, value) if less else max(held, value))
    return moments, best


def median_course(courses: Sequence[BestSoFar], *, by: str, metric: str, less: bool, after: float) -> dict[str, Any]:
    """What a run is to keep up with (see `hpfl.sweeps.run_ends`), from when on all had been evaluated three times."""
    known = [course for course in courses if course[0]]
    if not known:
        return {}
    begin = max(after, *(moments[min(FIRST, len(moments)) - 1] for moments, _ in known))
    every = sorted({moment for moments, _ in known for moment in moments if moment >= begin} | {begin})
    every = every[:: -(-len(every) // MOST_MOMENTS)]
    levels = [statistics.median(_by(course, moment) for course in known) for moment in every]
    return {"by": by, "metric": metric, "less": less, "at": every, "level": levels}


def _by(course: BestSoFar, moment: float) -> float:
    """The best value by a moment; a run that has ended keeps its own."""
    moments, best = course
    return next((value for at, value in zip(reversed(moments), reversed(best), strict=True) if at <= moment), best[0])
