"""How far children are believed: whoever breaks a rule that no honest child breaks is left out for a while."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.hub import Child
from hpfl.deployment.refusal import LIES, RefusedError


@contextmanager
def struck(attendance: Attendance, number: int) -> Iterator[None]:
    """Leave out a child whose message is refused inside, where no honest child's would be."""
    try:
        yield
    except RefusedError as error:
        if error.code in LIES:
            attendance.strike(number, f"{error.code}: {error.reason}")
        raise


def in_the_time_it_had(sketch: CheckedSketch, child: Child, longest_s: float) -> CheckedSketch:
    """A sketch that took no longer than its child has had for it, whatever it says."""
    had_s = asyncio.get_running_loop().time() - child.handed_s if child.handed_s else np.inf
    return replace(sketch, took_s=min(sketch.took_s, had_s, longest_s))
