"""One question to children: when each was asked, and whether those who have not answered are worth waiting for."""

from collections.abc import Collection, Mapping

from hpfl.deployment.attendance import Attendance, Question


class RollCall:
    """When children were asked; where they have `planned_s` to answer, only what they take beyond it is learnt."""

    def __init__(
        self,
        attendance: Attendance,
        question: Question,
        *,
        limit_s: float,
        planned_s: Mapping[int, float] | None = None,
        factor: float = 1.0,
    ) -> None:
        self.limit_s = limit_s
        self._attendance = attendance
        self._question: Question = question
        self._planned_s = planned_s or {}
        self._factor = factor
        self._asked_s: dict[int, float] = {}
        self._gone: set[int] = set()
        self._renewed: set[int] = set()
        self._num_heard = 0
        self._worth: int | None = None
        self._last_s = attendance.clock()

    def restart(self) -> None:
        """Another question of the same kind begins; whoever is left out may still answer the one before."""
        asked_s, attendance = self._asked_s, self._attendance
        self._asked_s = {one: at_s for one, at_s in asked_s.items() if attendance.is_left_out(one, self._question)}
        self._gone.clear()
        self._renewed.clear()
        self._num_heard, self._last_s = 0, attendance.clock()

    def calls(self, number: int) -> bool:
        """Ask a child, one that is left out only now and then; whether it is asked."""
        attendance, question = self._attendance, self._question
        if attendance.is_left_out(number, question):
            if not attendance.is_due(number, question):
                return False
            attendance.probed(number, question)
            self._asked_s.pop(number, None)
        self.ask(number)
        return True

    def ask(self, number: int) -> None:
        """A child is asked; whoever is asked again has no more time for it."""
        self._asked_s.setdefault(number, self._attendance.clock())

    def renew(self, number: int) -> bool:
        """A child that had nobody to compute for it begins only now; so it does once a question, and not for ever."""
        if number in self._renewed:
            return False
        self._renewed.add(number)
        self._asked_s[number] = self._attendance.clock()
        return True

    def heard(self, number: int) -> None:
        """A child has answered, in time or late."""
        asked_s, before_s, now_s = self._asked_s.get(number), self._last_s, self._attendance.clock()
        if asked_s is not None:
            is_last = self._num_heard >= self._attendance.quorum_of(len(self._asked_s))
            alone_s = now_s - max(before_s, asked_s) if is_last else 0.0
            seconds = now_s - asked_s - self._planned_s.get(number, 0.0)
            self._attendance.took(number, seconds, self._question, alone_s=alone_s)
            self._num_heard, self._last_s = self._num_heard + 1, now_s

    def lacks(self, number: int) -> None:
        """A child says that nobody is there to compute for it; where it had said that somebody had come, it is a miss.

        Else one that says the one and the other in turns would be waited for every time, and never be left out.
        """
        if number in self._renewed:
            self._gave_up(number, "it said that UEs had come, and then that none are there")

    def left(self, number: int) -> None:
        """A child has gone that was asked and had not answered: once a question that is a miss, also if it comes back.

        Else one that comes and goes would be waited for whenever it is there, and never be left out.
        """
        self._gave_up(number, f"it left before its {self._question} came")

    def declined(self, number: int) -> None:
        """A child that was asked says that it has nothing: nobody waits, and yet it is a miss, for it was planned with.

        Else one that announces much and delivers nothing would lead every plan.
        """
        self._gave_up(number, f"it had announced its {self._question} and declines to send it")

    def _gave_up(self, number: int, why: str) -> None:
        """A miss, once a question, at what others have waited for it in vain."""
        asked_s, now_s = self._asked_s.get(number), self._attendance.clock()
        if asked_s is not None and number not in self._gone:
            self._gone.add(number)
            self._attendance.missed(number, why, self._question, cost_s=now_s - max(asked_s, self._last_s))

    def waits_s(self, number: int) -> float:
        """How long a child is waited for from when it is asked."""
        learnt_s = self._attendance.patience_s([number], self.limit_s, self._question)
        return min(self._factor * self._planned_s.get(number, 0.0) + learnt_s, self.limit_s)

    def is_over(self, owing: Collection[int], count: int) -> bool:
        """Whether nobody who owes an answer, of `count` who were asked, is worth waiting for any longer."""
        if count - len(owing) < self._attendance.quorum_of(count):
            return not count
        if self.awaited() in owing:  # the others need not be looked at
            return False
        now_s = self._attendance.clock()
        self._worth = next((number for number in owing if self._is_worth(number, now_s)), None)
        return self._worth is None

    def awaited(self) -> int | None:
        """The child that was found worth waiting for last, if it still is; it may have answered meanwhile."""
        last = self._worth
        return last if last is not None and self._is_worth(last, self._attendance.clock()) else None

    def _is_worth(self, number: int, now_s: float) -> bool:
        """Whether a child is worth waiting for."""
        return now_s < self._asked_s.get(number, now_s) + self.waits_s(number)

    def close(self, owing: Collection[int], count: int) -> None:
        """Go on without those who owe an answer, of `count` who were asked; where most do, nobody is blamed."""
        if count - len(owing) < self._attendance.quorum_of(count):
            return
        now_s = self._attendance.clock()
        for number in sorted(owing):
            asked_s = self._asked_s.get(number)
            if asked_s is not None:
                why = f"no {self._question} came in {now_s - asked_s:.2f} s"
                cost_s = now_s - max(asked_s, self._last_s)
                self._attendance.missed(number, why, self._question, cost_s=cost_s)
