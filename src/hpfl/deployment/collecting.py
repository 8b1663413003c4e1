"""Updates of one round: each is asked for once, counted once, and never after the end."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from hpfl.deployment.checks import check_same_model
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.roll_call import RollCall
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import Arrival, Tag

Sink = Callable[[int, Arrival], None]
"""Told of a child's update; may refuse it."""


class Collecting:
    """Which children were asked for an update, under which tag, and which have delivered it."""

    def __init__(self, tags: Mapping[int, Tag], sink: Sink, roll: RollCall) -> None:
        self.seconds: dict[int, float] = {}
        self._tags = tags
        self._sink = sink
        self._roll = roll
        self._changed = asyncio.Event()
        self._asked_at: dict[int, float] = {}
        self._answers: dict[int, asyncio.Future[bool]] = {}
        self._closed = False

    def ask(self, number: int) -> "asyncio.Future[bool]":
        """Open the door for one child; the future says whether its update came."""
        loop = asyncio.get_running_loop()
        self._asked_at[number] = loop.time()
        self._answers[number] = loop.create_future()
        self._roll.ask(number)
        return self._answers[number]

    async def run(self, asking: Mapping[int, Coroutine[Any, Any, None]], within_s: float) -> None:
        """Ask everybody, side by side; close when all have answered, are not worth waiting for, or the time is over."""
        tasks = {number: asyncio.ensure_future(one) for number, one in asking.items()}
        owing = set(tasks)

        def settled(number: int, _: object) -> None:
            owing.discard(number)
            self._changed.set()

        for number, task in tasks.items():
            task.add_done_callback(partial(settled, number))
        try:
            await until(lambda: self._is_over(owing, len(tasks)), self._changed, within_s)
            self._roll.close(owing, len(tasks))
        finally:
            self.close()
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _is_over(self, owing: set[int], count: int) -> bool:
        return not owing or self._roll.is_over(owing, count)

    def check(self, tag: Tag, number: int) -> None:
        """Refuse updates of another round or model, unasked ones, second ones and late ones."""
        if number not in self._tags:
            raise RefusedError("unexpected", "a vector came that nobody asked for")
        check_same_model(tag, self._tags[number], rounds=True)
        if self._closed:
            raise RefusedError("late", f"the update of round {tag.round} came after its deadline")
        if number in self.seconds:
            raise RefusedError("repeated", f"a second update of child {number} came in round {tag.round}")
        if number not in self._answers:
            raise RefusedError("unexpected", f"child {number} was not asked in round {tag.round}")

    def awaits(self, tag: Tag, number: int) -> bool:
        """Whether a child's answer to this very question is still to come."""
        future, wanted = self._answers.get(number), self._tags.get(number)
        if future is None or future.done() or wanted is None:
            return False
        return tag.round == wanted.round and tag.about_same_model(wanted)

    def is_open_for(self, number: int) -> bool:
        """Whether a child may still deliver."""
        return number in self._tags and not self._closed and number not in self.seconds

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
        self._roll.heard(number)
        self._settle(number, True)

    def give_up(self, number: int) -> None:
        """This child's update will not come."""
        self._settle(number, False)

    def declined(self, number: int) -> None:
        """This child says that its update will not come."""
        self._roll.declined(number)
        self.give_up(number)

    def left(self, number: int) -> None:
        """This child has gone, with the update that was asked for."""
        future = self._answers.get(number)
        if future is not None and not future.done():
            self._roll.left(number)

    def close(self) -> None:
        """Whatever comes from now on is late."""
        self._closed = True
        for number in self._answers:
            self._settle(number, False)

    def _settle(self, number: int, answer: bool) -> None:
        future = self._answers.get(number)
        if future is not None and not future.done():
            future.set_result(answer)
