"""When a parent that was started begins: with everybody, or with a quorum once nobody has come for a while."""

from collections.abc import Callable

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.settings import TimingSettings


class Opening:
    """Counts children that come after a start; once it has begun, nobody is waited for who is not there."""

    def __init__(self, attendance: Attendance, timing: TimingSettings, expected: Callable[[], int]) -> None:
        self._attendance = attendance
        self._timing = timing
        self._expected = expected
        self._since_s = self._came_s = attendance.clock()
        self._most = 0
        self._begun = False

    def start(self) -> None:
        """The parent listens from now on."""
        self._since_s = self._came_s = self._attendance.clock()

    def is_early(self, there: int, *, resumed: bool) -> bool:
        """Whether children may still be on their way; those of a `resumed` run were there, and are back soon."""
        if not self._begun:
            self._begun = self._is_time(there, resumed=resumed)
        return not self._begun

    def _is_time(self, there: int, *, resumed: bool) -> bool:
        now_s, expected = self._attendance.clock(), self._expected()
        if there > self._most:
            self._most, self._came_s = there, now_s
        settled = now_s - self._came_s >= self._timing.settle_s and there >= self._attendance.quorum_of(expected)
        return there >= expected or now_s - self._since_s >= self._timing.gather_s or (resumed and settled)
