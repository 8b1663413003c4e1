"""How far children are believed: whoever breaks a rule that no honest child breaks is left out for a while."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.hub import Child
from hpfl.deployment.refusal import LIES, RefusedError

_UNSEEN_S = 120.0
"""The most that is believed of seconds that a parent has not seen: of a child that was there before, or its parent."""


@contextmanager
def struck(attendance: Attendance, number: int, changed: asyncio.Event) -> Iterator[None]:
    """Leave out a child whose message is refused inside, where no honest child's would be; who waits looks again."""
    try:
        yield
    except RefusedError as error:
        if error.code in LIES:
            attendance.strike(number, f"{error.code}: {error.reason}")
            changed.set()
        raise


def in_the_time_it_had(sketch: CheckedSketch, child: Child) -> CheckedSketch:
    """A sketch that took no longer than its child has had for it, whatever it says; unknown where it came with it."""
    if not child.handed_s:
        return replace(sketch, took_s=min(sketch.took_s, _UNSEEN_S))
    return replace(sketch, took_s=min(sketch.took_s, asyncio.get_running_loop().time() - child.handed_s))
