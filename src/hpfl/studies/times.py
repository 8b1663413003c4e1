"""`time-to-accuracy` as one of the studies: its grid, its tables and its picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hpfl.studies import time_to_accuracy as times
from hpfl.studies.bars import bars, comparisons, slower
from hpfl.studies.cases import Scale
from hpfl.studies.converged import converged_rows
from hpfl.studies.picture import draw
from hpfl.studies.study import Found, Study, Tables
from hpfl.studies.tabulate import distinct
from hpfl.sweeps.parts import StudyPart

_EVERY: Mapping[str, times.Setting] = {**times.FULL, **times.QUICK}


def parts(scale: Scale, seeds: Sequence[int]) -> list[StudyPart]:
    """The whole grid, or a small sample of it."""
    return times.parts(times.QUICK if scale.thin else times.FULL, seeds)


def tables(found: Sequence[Found]) -> Tables:
    """`bars` that `fastest` is held to, its `speedups` over every rival, `converged` accuracies, `cells` and `runs`."""
    runs = times.run_rows(found, _EVERY)
    here = {data: setting for data, setting in _EVERY.items() if data in distinct(runs, "data")}
    return {
        "bars": bars(found, here),
        "speedups": comparisons(runs, here),
        "converged": converged_rows(found),
        "cells": times.summary_rows(runs),
        "runs": runs,
    }


def picture(made: Tables, folder: Path) -> list[Path]:
    """Seconds to the last target against how many edges a round takes."""
    return draw(made["cells"], {data: setting.targets[-1] for data, setting in _EVERY.items()}, folder)


STUDY = Study(
    name="time-to-accuracy",
    title="Simulated time to a personalised accuracy, planner by planner",
    about="What a user waits for: simulated seconds (and joules, and bits) until the mean personalised accuracy holds "
    "a target. A speed-up above 1 says `fastest` is faster than the rival, which takes the better of its broadcasts.",
    parts=parts,
    tables=tables,
    draw=picture,
    shown=("bars", "speedups"),
    notes=lambda made: slower(made["speedups"]),
)
