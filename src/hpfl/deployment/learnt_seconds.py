"""How long children take to compute, learnt from when their answers came; what they say themselves is a first guess."""

from dataclasses import dataclass
from statistics import median, median_low

_LAST = 5
"""Answers of a child that are looked at: their median forgets the first one, which often is slow, after three."""
_UNSEEN_S = 120.0
"""The most that is believed of seconds that nobody here has seen: of a child that was there before its parent was."""


@dataclass(frozen=True, slots=True)
class _AnswerTimes:
    """One child's last answers: seconds from the model's leaving to the answer, and those of them that it disowns.

    Tuples, for an edge has one of these for every UE, and an empty deque has room for 64.
    """

    took_s: tuple[float, ...] = ()
    beyond_s: tuple[float, ...] = ()

    def and_one(self, took_s: float, beyond_s: float) -> "_AnswerTimes":
        """The same with one more answer."""
        return _AnswerTimes((*self.took_s, took_s)[-_LAST:], (*self.beyond_s, beyond_s)[-_LAST:])


class LearntSeconds:
    """By child, seconds of computing: a median of what its answers took, less what the way there and back takes.

    What the way takes is what most children leave over of it when they say how long they have computed. So no single
    child decides it, and where there is only one, nothing is taken off.
    """

    def __init__(self) -> None:
        self._answers: dict[int, _AnswerTimes] = {}
        self._way_s, self._until_next = 0.0, 0

    def heard(self, number: int, took_s: float, *, claimed_s: float) -> None:
        """An answer came so long after the model left, and says that computing took `claimed_s` of it."""
        took_s, before = max(took_s, 0.0), self._answers.get(number, _AnswerTimes())
        self._answers[number] = before.and_one(took_s, took_s - min(claimed_s, took_s))
        self._until_next -= 1
        if self._until_next <= 0:  # a few times a round: thousands of children need not sort each other's for each
            self._way_s, self._until_next = self._ways_s(), len(self._answers) // 4

    def of(self, number: int, *, claimed_s: float) -> float:
        """Seconds that a child computes; of one that has never been measured what it claims, up to the others'."""
        if number in self._answers:
            return max(median(self._answers[number].took_s) - self._way_s, 0.0)
        seen_s = (median(answers.took_s) for answers in self._answers.values())
        return min(claimed_s, max(seen_s, default=_UNSEEN_S))

    def forget(self, number: int) -> None:
        """Another child may sit here from now on."""
        self._answers.pop(number, None)

    def _ways_s(self) -> float:
        if len(self._answers) < 2:
            return 0.0
        return median_low(median(answers.beyond_s) for answers in self._answers.values())
