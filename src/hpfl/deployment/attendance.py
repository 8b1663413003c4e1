"""Who answers a parent's questions and how soon: how long children are waited for, and who is left out for a while."""

import math
from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass, field
from typing import Literal, get_args

from hpfl.deployment.usual_seconds import Patience, UsualSeconds

Question = Literal[
    "sketch",
    "update",
    "keys",
    "shares",
    "masked words",
    "vote",
    "revealed shares",
    "figures",
    "newcomers' figures",
]
"""What children are asked for; keys to revealed shares are steps of a secure sum, each with usual seconds of its own.

Who owes figures is left out of evaluations, who owes anything else of rounds. Newcomers train before theirs.
"""
_OF_EVALUATIONS: Collection[Question] = ("figures", "newcomers' figures")

AttendanceTold = Callable[[str, int, str], None]
"""Told what has happened ("missed", "left out", "let in again"), to which child, and why."""

_OUT_AT = 2.0
"""Misses at which a child is left out; every answer in time takes `_FORGIVEN` of one away."""
_FORGIVEN = 0.25
_PRICE = 10.0
"""Times the seconds that a child has cost for which it is left out: no child costs more than a tenth of the time."""
_STRIKE_S = 60.0
_LONGEST_OUT_S = 3600.0
_MOST_DOUBLINGS = 20


@dataclass
class _Seat:
    """One child's standing in rounds, or in evaluations; moments and pauses in seconds."""

    misses: dict[Question, float] = field(default_factory=dict)
    cost_s: float = 0.0
    times_out: int = 0
    is_out: bool = False
    probed: bool = False
    pause_s: float = 0.0
    until_s: float = -math.inf

    def forgive(self, question: Question, now_s: float) -> None:
        """One more answer in time; who has behaved for as long as it was left out has a clean sheet."""
        self.misses[question] = max(self.misses.get(question, 0.0) - _FORGIVEN, 0.0)
        if not any(self.misses.values()):
            self.cost_s = 0.0
            if now_s >= self.until_s:
                self.times_out = 0

    def leave_out(self, now_s: float, pause_s: float) -> None:
        """Out for so long, doubled for each time before; never for less than is left of an earlier pause."""
        doubled_s = min(pause_s * 2.0 ** min(self.times_out, _MOST_DOUBLINGS), _LONGEST_OUT_S)
        self.pause_s = max(doubled_s, self.until_s - now_s)
        self.until_s = now_s + self.pause_s
        self.times_out += 1
        self.is_out, self.probed, self.cost_s = True, False, 0.0

    def let_in(self) -> None:
        """In again, on trial: the next miss counts as the second."""
        self.is_out, self.cost_s = False, 0.0
        self.misses = dict.fromkeys(self.misses, _OUT_AT - 1.0)


class Attendance:
    """One parent's book of its children by number; it waits for nobody itself, and asks `clock` alone for the time."""

    def __init__(
        self,
        clock: Callable[[], float],
        tell: AttendanceTold = lambda event, number, why: None,
        *,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
        quorum: float = 0.5,
    ) -> None:
        self.clock = clock
        self._tell = tell
        self._quorum = quorum
        self._rule = patience
        self._usual: dict[Question, UsualSeconds] = {one: UsualSeconds(patience) for one in get_args(Question)}
        rounds: dict[int, _Seat] = {}
        evaluations: dict[int, _Seat] = {}
        self._seats: dict[Question, dict[int, _Seat]] = dict.fromkeys(get_args(Question), rounds)
        self._seats.update(dict.fromkeys(_OF_EVALUATIONS, evaluations))
        self._strikes: dict[int, int] = {}
        self._out: set[int] = set()

    def took(self, number: int, seconds: float, question: Question = "sketch", *, alone_s: float = 0.0) -> None:
        """An answer came after so long, in time or late: later waits are learnt from it.

        The last `alone_s` of it most others had answered. Whoever again and again takes many times as long as is usual,
        and keeps others waiting, is left out as if it had not answered.
        """
        usual, seconds = self._usual[question], max(seconds, 0.0)
        usual.add(number, seconds)
        is_slow = alone_s > 0.5 * seconds and usual.is_slow(seconds)
        self.answered(number, question)
        seat = self._seat(number, question)
        if is_slow and not seat.is_out:
            seat.misses[question] = seat.misses.get(question, 0.0) + _FORGIVEN + self._rule.drag
            seat.cost_s += alone_s
            self._judge(number, seat, question, f"its answers ({question}) take {self._rule.slowest:g} times the usual")

    def answered(self, number: int, question: Question = "sketch") -> None:
        """An answer came; who was left out and asked again since is let in."""
        seat = self._seat(number, question)
        if seat.is_out and seat.probed:
            seat.let_in()
            if question not in _OF_EVALUATIONS:
                self._out.discard(number)
            self._tell("let in again", number, f"it answers ({question})")
        elif not seat.is_out:
            seat.forgive(question, self.clock())

    def missed(self, number: int, why: str, question: Question = "sketch", *, cost_s: float = 0.0) -> None:
        """A child did not answer, and others waited for it in vain for so long; after a few misses it is left out."""
        seat = self._seat(number, question)
        if seat.is_out:
            return
        seat.misses[question] = seat.misses.get(question, 0.0) + 1.0
        seat.cost_s += cost_s
        self._tell("missed", number, why)
        self._judge(number, seat, question, why)

    def strike(self, number: int, why: str) -> None:
        """A child did what no honest one does: it is left out of everything at once, each time for twice as long."""
        before = self._strikes[number] = self._strikes.get(number, 0) + 1
        pause_s = _STRIKE_S * 2.0 ** min(before - 1, _MOST_DOUBLINGS)
        for seat in (self._seat(number, "sketch"), self._seat(number, "figures")):
            seat.times_out = 0
            seat.leave_out(self.clock(), pause_s)
        self._out.add(number)
        self._tell("left out", number, why)

    def forget(self, number: int) -> None:
        """Another child may sit here from now on; what the one before did is not held against it."""
        was_out = self.is_left_out(number)
        self._strikes.pop(number, None)
        self._out.discard(number)
        for seats in self._seats.values():
            seats.pop(number, None)
        if was_out:
            self._tell("let in again", number, "its slot has been given away")

    def need(self, number: int, why: str) -> None:
        """Nobody else can answer in this child's place: if it is left out it is let in, on trial; no liar is."""
        if self.is_left_out(number) and number not in self._strikes:
            self._seat(number, "sketch").let_in()
            self._out.discard(number)
            self._tell("let in again", number, why)

    def is_left_out(self, number: int, question: Question = "sketch") -> bool:
        """Whether a child is not waited for, and what it sends does not count."""
        seat = self._seats[question].get(number)
        return seat is not None and seat.is_out

    def left_out(self) -> Set[int]:
        """Who is left out of rounds now."""
        return self._out

    def is_due(self, number: int, question: Question = "sketch") -> bool:
        """Whether a child that is left out may be asked again, without waiting for it."""
        seat = self._seat(number, question)
        return seat.is_out and self.clock() >= seat.until_s

    def probed(self, number: int, question: Question = "sketch") -> None:
        """A child that is left out was asked again; if it does not answer, the next time is twice as far away."""
        seat = self._seat(number, question)
        seat.probed = True
        seat.pause_s = min(2.0 * seat.pause_s, _LONGEST_OUT_S)
        seat.until_s = self.clock() + seat.pause_s

    def patience_s(self, numbers: Iterable[int], limit_s: float, question: Question = "sketch") -> float:
        """How long to wait for these children from when they were asked: as learnt, never above the limit."""
        usual = self._usual[question]
        misses = {number: self._seat(number, question).misses.get(question, 0.0) for number in numbers}
        waits = (usual.wait_s(number, has_missed=count > 0.0) for number, count in misses.items())
        return max((limit_s if wait_s is None else min(wait_s, limit_s) for wait_s in waits), default=0.0)

    def quorum_of(self, count: int) -> int:
        """How many of so many children must have answered before a learnt wait may end."""
        return max(math.ceil(self._quorum * count), 1)

    def _judge(self, number: int, seat: _Seat, question: Question, why: str) -> None:
        if seat.misses[question] >= _OUT_AT:
            seat.leave_out(self.clock(), max(_PRICE * seat.cost_s, self._rule.least_s))
            if question not in _OF_EVALUATIONS:
                self._out.add(number)
            self._tell("left out", number, why)

    def _seat(self, number: int, question: Question) -> _Seat:
        return self._seats[question].setdefault(number, _Seat())
