"""When a parent that was started begins: with everybody, or with a quorum once nobody has come or gone for a while."""

from collections.abc import Callable

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.settings import TimingSettings


class Opening:
    """Counts children that come after a start; later on, nobody is waited for who is not there.

    `there` and `expected` are how many; those of a run that is `resumed` were there before, and are back soon.
    """

    def __init__(
        self,
        attendance: Attendance,
        timing: TimingSettings,
        *,
        there: Callable[[], int],
        expected: Callable[[], int],
        resumed: Callable[[], bool],
    ) -> None:
        self._attendance, self._timing = attendance, timing
        self._there, self._expected, self._resumed = there, expected, resumed
        self._since_s = self._changed_s = attendance.clock()
        self._before = 0

    def start(self) -> None:
        """The parent listens from now on."""
        self._since_s = self._changed_s = self._attendance.clock()

    def is_early(self) -> bool:
        """Whether children may still be on their way."""
        now_s, there, expected = self._attendance.clock(), self._there(), self._expected()
        if there != self._before:
            self._before, self._changed_s = there, now_s
        if there >= expected or now_s - self._since_s >= self._timing.gather_s:
            return False
        settled = now_s - self._changed_s >= self._timing.settle_s and there >= self._attendance.quorum_of(expected)
        return not (settled and self._resumed())
