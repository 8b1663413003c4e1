"""One attempt at the secure sums of a cell, as its edge conducts it: who is in, what is due, and who has fallen out."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.roll_call import RollCall
from hpfl.deployment.secure_format import Words
from hpfl.deployment.secure_wire import ATTEMPT_BYTES, SKETCH, UPDATE, SecureStep, alone, read_step, step_body
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import Tag, encode
from hpfl.secrecy import Collector, SecrecyError, Session, Trust, WrongMaskError, unpacked

_PHASE_S = 60.0
"""No step of a secure sum is waited for longer, whatever else the edge waits for."""


class Cell:
    """One session; whoever attaches anew has lost its keys, and sits out until the next attempt."""

    def __init__(
        self,
        made: Callable[[bytes], Session],
        tag: Tag,
        side: ParentSide,
        slots: Collection[int],
        *,
        trust: Trust,
        agreed: bytes,
    ) -> None:
        self.attempt = secrets.token_bytes(ATTEMPT_BYTES)
        self.session, self.tag = made(self.attempt), tag
        self._collector = Collector(self.session, trust)
        self._side, self._slots, self._agreed = side, slots, agreed
        self._in: dict[int, Child] = {}
        self._adverts: dict[int, bytes] = {}
        self._blamed: dict[int, set[int]] = {}
        self._broken: WrongMaskError | None = None
        self._changed = asyncio.Event()
        self._turn(pb.KEYS, "", ())

    @property
    def num_heard(self) -> int:
        """UEs that have answered what is due, and are still here."""
        return len(self._heard & self._in.keys())

    def invite(self, children: Collection[Child]) -> None:
        """Ask UEs for their keys, as long as those are due; one that has come again is asked again."""
        if self._kind != pb.KEYS:
            return
        new = [child for child in children if self._in.get(child.number) is not child]
        for child in new:
            self._in[child.number] = child
            self._adverts.pop(child.number, None)
            self._heard.discard(child.number)
            self._asked.add(child.number)
            self._roll.ask(child.number)
        self._send(new, pb.OPEN, agreed=self._agreed)

    def gone(self, child: Child) -> None:
        """A stream has ended: its UE falls out."""
        if self._in.get(child.number) is child:
            if child.number in self._owing():
                self._roll.left(child.number)
            self._lose(child.number)

    def take(self, child: Child, tag: Tag, message: Any) -> None:
        """A step of one UE, if it is the one that is due; whoever sends what cannot be right falls out."""
        step = read_step(message, self._slots)
        if step.attempt != self.attempt or not tag.about_same_model(self.tag):
            raise RefusedError("stale", "a step of a secure sum came that is over")
        if self._in.get(child.number) is not child:
            raise RefusedError("late", f"{child.name} has fallen out of the secure sum, or came too late for it")
        if step.kind == pb.SITS_OUT:
            reason = alone(step, child.number).decode(errors="replace")
            log("sits out", level=logging.WARNING, child=child.name, round=tag.round, reason=reason)
            self._lose(child.number)
        elif step.kind == pb.COMPLAINT:
            self._blame(child.number, step.entries)
        elif (step.kind, step.sum) == (self._kind, self._sum):
            self._take(child.number, step)
        else:
            raise RefusedError("late", f"step {step.kind} of a secure sum came, due is step {self._kind}")

    def take_update(self, number: int, packed: bytes) -> None:
        """The masked update of a UE."""
        if (self._kind, self._sum) != (pb.MASKED, UPDATE):
            raise RefusedError("late", "a masked update came that is not due")
        self._noted(number, partial(self._add_masked, UPDATE, number, packed))

    async def set_up(self, is_early: Callable[[], bool], *, limit_s: float) -> None:
        """Collect keys and hand them round, then shares; those who have sent shares are the members."""
        while is_early():
            await until(lambda: not is_early(), self._changed, _PHASE_S)
        await self._wait(limit_s)
        for number in sorted(self._heard & self._in.keys()):
            try:
                self._tried(number, partial(self._collector.add_advert, number, self._adverts[number]))
            except RefusedError as error:
                self._side.attendance.strike(number, f"{error.code}: {error.reason}")
        adverts = self._collector.adverts()
        self._in = {number: child for number, child in self._in.items() if number in adverts}
        self._turn(pb.SHARES, "", self._in)
        self._send(list(self._in.values()), pb.ROSTER, adverts)
        await self._wait(limit_s)
        self._in = {number: child for number, child in self._in.items() if number in self._heard}
        inboxes = {number: self._collector.shares_for(number) for number in self._in}
        self._turn(pb.MASKED, self.session.instances[0].name, self._in)
        for number, inbox in inboxes.items():
            self._send([self._in[number]], pb.SHARED, inbox)

    async def masked_sketches(self, of: Collection[int], *, limit_s: float) -> None:
        """Wait for the masked sketches of those who have computed."""
        self._asked &= set(of)
        self._roll = self._called(self._asked, limit_s)
        await self._wait(limit_s)

    def begin_updates(self, of: Collection[int]) -> set[int]:
        """Masked updates are due; of whom."""
        self._turn(pb.MASKED, UPDATE, set(of) & self._in.keys())
        return set(self._asked)

    async def summed(self, name: str, *, limit_s: float) -> tuple[Words, list[int]]:
        """The sum of what has come, and of whom, once those agree on who they are and uncover what masks it."""
        survivors = self._collector.survivors(name)
        there = [number for number in survivors if number in self._in]
        self._turn(pb.VOTES, name, there)
        self._send([self._in[number] for number in there], pb.SURVIVORS, survivors, of=name)
        await self._wait(limit_s)
        voted = [number for number in there if number in self._in]
        inboxes = {number: self._collector.votes_for(name, number) for number in voted}
        self._turn(pb.REVEALED, name, voted)
        for number, inbox in inboxes.items():
            self._send([self._in[number]], pb.VOTED, inbox, of=name)
        await self._wait(limit_s)
        return await asyncio.to_thread(self._collector.sum, name), survivors

    # what comes

    def _take(self, number: int, step: SecureStep) -> None:
        match step.kind:
            case pb.KEYS:
                data = alone(step, number)
                self._noted(number, partial(self._adverts.__setitem__, number, data))
            case pb.SHARES:
                self._noted(number, partial(self._collector.add_shares, number, step.entries))
            case pb.MASKED if step.sum == SKETCH:
                self._noted(number, partial(self._add_masked, SKETCH, number, alone(step, number)))
            case pb.VOTES:
                self._noted(number, partial(self._collector.add_votes, step.sum, number, step.entries))
            case pb.REVEALED:
                self._noted(number, partial(self._collector.add_revealed, step.sum, number, alone(step, number)))
            case _:
                raise RefusedError("unexpected", f"step {step.kind} of a secure sum is for UEs")

    def _add_masked(self, name: str, number: int, packed: bytes) -> None:
        one = next(one for one in self.session.instances if one.name == name)
        self._collector.add_masked(name, number, unpacked(packed, one.length, one.bits))

    def _noted(self, number: int, add: Callable[[], None]) -> None:
        """Add what a UE was asked for, once."""
        if number not in self._owing():
            raise RefusedError("repeated", f"step {self._kind} of UE {number} came again, or was not asked for")
        self._heard.add(number)
        self._tried(number, add)
        self._roll.heard(number)
        self._changed.set()

    def _tried(self, number: int, add: Callable[[], None]) -> None:
        try:
            add()
        except SecrecyError as error:
            self._lose(number)
            raise RefusedError("malformed", f"UE {number} falls out of the secure sum: {error}") from None

    def _blame(self, by: int, whom: Collection[int]) -> None:
        """Note whose shares a UE could not open; where too many could not, its masks could never be taken away."""
        for number in whom:
            blaming = self._blamed.setdefault(number, set())
            blaming.add(by)
            if len(self._in) - len(blaming) < self.session.threshold and self._broken is None:
                self._broken = WrongMaskError(f"{len(blaming)} UEs cannot open the shares of UE {number}", [number])
                self._changed.set()

    def _lose(self, number: int) -> None:
        self._in.pop(number, None)
        self._changed.set()

    # what is due

    def _turn(self, kind: int, name: str, asked: Collection[int]) -> None:
        self._kind, self._sum = kind, name
        self._asked: set[int] = set(asked)
        self._heard: set[int] = set()
        self._roll = self._called(self._asked, _PHASE_S)

    def _called(self, asked: Set[int], limit_s: float) -> RollCall:
        roll = RollCall(self._side.attendance, "secure", limit_s=limit_s)
        for number in asked:
            roll.ask(number)
        return roll

    def _owing(self) -> set[int]:
        return (self._asked & self._in.keys()) - self._heard

    async def _wait(self, limit_s: float) -> None:
        """Wait for those who were asked, as long as they are worth it; the others have fallen out."""

        def done() -> bool:
            owing = self._owing()
            return self._broken is not None or not owing or self._roll.is_over(owing, len(self._asked))

        await until(done, self._changed, limit_s)
        if self._broken is not None:
            raise self._broken
        owing = self._owing()
        self._roll.close(owing, len(self._asked))
        for number in owing:
            self._lose(number)

    def _send(
        self,
        children: Collection[Child],
        kind: int,
        entries: Mapping[int, bytes] | Collection[int] = (),
        *,
        of: str = "",
        agreed: bytes = b"",
    ) -> None:
        frame = encode(self.tag, **step_body(kind, self.attempt, entries, of=of, agreed=agreed))
        self._side.hub.send_all([frame], list(children), at_once=self._side.at_once)
