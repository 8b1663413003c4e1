"""Attendance as a node's file wants it, said in the log and counted in the metrics."""

import logging
import time
from collections.abc import Mapping

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.logs import log
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import TimingSettings
from hpfl.deployment.usual_seconds import Patience

_DRAG = 0.5
"""Of a miss, what an answer counts that is much slower than usual; edges judge sooner than the cloud judges them."""


def kept_attendance(timing: TimingSettings, roster: Mapping[str, int], metrics: Metrics, *, share: float) -> Attendance:
    """A parent's book of its children; it waits `share` of what others would."""

    def noted(event: str, number: int, why: str) -> None:
        names = [name for name, slot in roster.items() if slot == number]  # who sits there now
        log(f"child {event}", level=logging.WARNING, child=names[0] if names else str(number), why=why)
        metrics.misses.inc(event == "missed")
        metrics.left_out.set(len(attendance.left_out()))

    patience = Patience(least_s=timing.least_wait_s, slowest=timing.slowest, share=share, drag=_DRAG / share**2)
    attendance = Attendance(time.monotonic, noted, patience=patience, quorum=timing.quorum)
    return attendance
