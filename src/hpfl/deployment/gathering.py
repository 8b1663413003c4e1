"""What a parent waits for: sketches of everybody who computes on a model, then updates of everybody who was asked."""

import asyncio
from collections.abc import Callable, Iterable

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.deployment.checks import CheckedSketch, check_same_model
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Tag

_LONGEST_WAIT_S = 0.25  # how often a wait looks again at who is attached
_ASKED_AGAIN_AFTER = (0.125, 0.125, 0.25)  # shares of a wait; the rest is waited in silence


class Gathering:
    """Sketches of the updates computed on one model, by child."""

    def __init__(self, tag: Tag) -> None:
        self.tag = tag
        self.sketches: dict[int, CheckedSketch] = {}
        self.failed: set[int] = set()
        self.changed = asyncio.Event()

    def check(self, tag: Tag, number: int) -> None:
        """Refuse sketches about another model, and second ones."""
        check_same_model(tag, self.tag)
        if number in self.sketches:
            raise RefusedError("repeated", f"a second sketch of child {number} came")

    def take(self, number: int, sketch: CheckedSketch) -> None:
        """One more child has computed."""
        self.sketches[number] = sketch
        self.changed.set()

    def give_up(self, number: int) -> None:
        """This child computes nothing on the model that could be used."""
        self.failed.add(number)
        self.changed.set()

    def mean(self, numbers: Iterable[int]) -> tuple[FloatArray, float]:
        """The weighted mean of some children's sketches, in the order of their numbers, and their weight."""
        chosen = [self.sketches[number] for number in sorted(numbers)]
        weight = sum(sketch.weight for sketch in chosen)
        values = np.zeros_like(chosen[0].values)
        for sketch in chosen:
            values += sketch.weight / weight * sketch.values
        return values, weight


async def until(done: Callable[[], bool], changed: asyncio.Event, seconds: float) -> bool:
    """Wait until `done`, looking whenever something `changed`; False when the seconds are over first."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not done():
        left = end - loop.time()
        if left <= 0:
            return False
        changed.clear()
        try:
            async with asyncio.timeout(min(left, _LONGEST_WAIT_S)):
                await changed.wait()
        except TimeoutError:
            continue
    return True


async def asked_until(
    done: Callable[[], bool], changed: asyncio.Event, seconds: float, ask_again: Callable[[], None]
) -> bool:
    """Wait as `until` does, asking again at growing intervals: an answer, or the question, may have been lost."""
    for share in _ASKED_AGAIN_AFTER:
        if await until(done, changed, share * seconds):
            return True
        ask_again()
    return await until(done, changed, (1.0 - sum(_ASKED_AGAIN_AFTER)) * seconds)


class Collecting:
    """Updates of one round, by child: each is asked for once, counted once, and never after the end."""

    def __init__(self, tag: Tag, sink: Callable[[int, Arrival], None]) -> None:
        self.tag = tag
        self.seconds: dict[int, float] = {}
        self._sink = sink
        self._asked_at: dict[int, float] = {}
        self._answers: dict[int, asyncio.Future[bool]] = {}
        self._closed = False

    def ask(self, number: int) -> "asyncio.Future[bool]":
        """Open the door for one child; the future says whether its update came."""
        loop = asyncio.get_running_loop()
        self._asked_at[number] = loop.time()
        self._answers[number] = loop.create_future()
        return self._answers[number]

    def check(self, tag: Tag, number: int) -> None:
        """Refuse updates of another round or model, unasked ones, second ones and late ones."""
        check_same_model(tag, self.tag, rounds=True)
        if self._closed:
            raise RefusedError("late", f"the update of round {tag.round} came after its deadline")
        if number in self.seconds:
            raise RefusedError("repeated", f"a second update of child {number} came in round {tag.round}")
        if number not in self._answers:
            raise RefusedError("unexpected", f"child {number} was not asked in round {tag.round}")

    def awaits(self, tag: Tag, number: int) -> bool:
        """Whether a child's answer to this very question is still to come."""
        future = self._answers.get(number)
        same = tag.round == self.tag.round and tag.about_same_model(self.tag)
        return same and future is not None and not future.done()

    @property
    def is_closed(self) -> bool:
        """Whether the deadline is over."""
        return self._closed

    def waited(self, number: int) -> float:
        """Seconds since a child was asked."""
        return asyncio.get_running_loop().time() - self._asked_at[number]

    def take(self, number: int, arrival: Arrival) -> None:
        """Count an update; where the sink refuses it, sending it again would not help, and nobody waits for it."""
        self.check(arrival.tag, number)
        try:
            self._sink(number, arrival)
        except RefusedError:
            self.give_up(number)
            raise
        self.seconds[number] = self.waited(number)
        self._settle(number, True)

    def give_up(self, number: int) -> None:
        """This child's update will not come."""
        self._settle(number, False)

    def close(self) -> None:
        """Whatever comes from now on is late."""
        self._closed = True
        for number in self._answers:
            self._settle(number, False)

    def _settle(self, number: int, answer: bool) -> None:
        future = self._answers.get(number)
        if future is not None and not future.done():
            future.set_result(answer)
