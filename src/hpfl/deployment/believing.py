"""How far children are believed: whoever breaks a rule that no honest child breaks is left out for a while."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.hub import Child
from hpfl.deployment.learnt_seconds import LearntSeconds
from hpfl.deployment.refusal import LIES, RefusedError


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


def believed(
    check: Callable[[Child, Any], CheckedSketch], child: Child, message: Any, learnt: LearntSeconds
) -> CheckedSketch:
    """A child's sketch, checked; how long it was computed is what the parent has learnt, whatever the child says."""
    sketch = check(child, message)
    if child.handed_s:
        waited_s = asyncio.get_running_loop().time() - child.handed_s
        learnt.heard(child.number, waited_s, claimed_s=sketch.took_s)
    return replace(sketch, took_s=learnt.of(child.number, claimed_s=sketch.took_s))
