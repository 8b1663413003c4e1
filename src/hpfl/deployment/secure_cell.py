"""One attempt at the secure sums of a cell, as its edge conducts it, step by step (docs/secure.md)."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Set
from functools import partial
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_turns import PHASE_S, SecureTurns
from hpfl.deployment.secure_uncovering import ShownLists, Uncovering
from hpfl.deployment.secure_wire import ATTEMPT_BYTES, SKETCH, UPDATE, SecureStep, alone, bits_sent, read_step
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import Tag
from hpfl.secrecy import MEMBERS, Collector, SecrecyError, Session, TooFewError, Trust, dispute, unpacked
from hpfl.secrecy.words import WordArray

_QUICK = 2**24
"""Words of all UEs of a sum that is unmasked where it is, within some hundredths of a second."""


class LeftBetweenError(SecrecyError):
    """UEs have left between the sums of sketches and of updates, and `secure.leavers` is refused."""


class SecureCell:
    """One session, in which nobody sets up anew who has come again, but may still vouch and uncover what it had masked.

    `shown` are the survivors of sums on the same model that may be uncovered already, in this attempt or before.
    """

    def __init__(
        self,
        made: Callable[[bytes], Session],
        tag: Tag,
        side: ParentSide,
        slots: Collection[int],
        *,
        trust: Trust,
        agreed: bytes,
        shown: ShownLists | None = None,
    ) -> None:
        self.attempt = secrets.token_bytes(ATTEMPT_BYTES)
        self.session, self.tag = made(self.attempt), tag
        self._collector = Collector(self.session, trust)
        self._turns = SecureTurns(side, tag, self.attempt, least=self.session.threshold)
        self._side, self._slots, self._agreed = side, slots, agreed
        self._adverts: dict[int, bytes] = {}
        self._blamed: dict[int, set[int]] = {}
        known = {} if shown is None else shown
        self._uncovering = Uncovering(self._turns, self._collector, self.session.threshold, known)

    @property
    def num_heard(self) -> int:
        """UEs that have answered what is due, and are still here."""
        return len(self._turns.heard & self._turns.present.keys())

    def able(self, numbers: Set[int]) -> Set[int]:
        """Those of some UEs that can still take part; all of them while it is open who does, or if too few are left."""
        turns = self._turns
        left = numbers & turns.present.keys()
        is_open = turns.due == (pb.KEYS, "") or turns.broken is not None or len(left) < self.session.threshold
        return numbers if is_open else left

    def invite(self, children: Collection[Child]) -> None:
        """Ask UEs for their keys, as long as those are due; one that has come again is asked again, for a vote too."""
        turns = self._turns
        for child in children:
            self._uncovering.ask_back(child)
        if turns.due == (pb.KEYS, ""):
            new = [child for child in children if turns.present.get(child.number) is not child]
            for child in new:
                turns.ask(child)
            turns.send(new, pb.OPEN, agreed=self._agreed)

    def gone(self, child: Child) -> None:
        """A stream has ended: its UE falls out."""
        if self._turns.present.get(child.number) is child:
            self._turns.left(child.number)

    def take(self, child: Child, tag: Tag, message: Any) -> None:
        """A step of one UE, if it is the one that is due; whoever sends what cannot be right falls out."""
        step, number = read_step(message, self._slots), child.number
        if step.attempt != self.attempt or not tag.about_same_model(self.tag):
            raise RefusedError("stale", "a step of a secure sum came that is over")
        if self._turns.present.get(number) is not child:
            raise RefusedError("late", f"{child.name} has fallen out of the secure sum, or came too late for it")
        if step.kind == pb.SITS_OUT:
            reason = alone(step, number).decode(errors="replace")
            log("sits out", level=logging.WARNING, child=child.name, round=tag.round, reason=reason)
            self._turns.lose(number)
        elif step.kind == pb.COMPLAINT:
            self._blame(number, step.entries)
        elif (step.kind, step.sum) == self._turns.due:
            self._noted(number, self._adding(number, step))
        elif (
            step.kind == pb.REVEALED and step.sum in self._uncovering.shown
        ):  # others were enough; it is checked all the same
            self._tried(number, self._adding(number, step))
        else:
            raise RefusedError("late", f"step {step.kind} of a secure sum came, due is step {self._turns.due[0]}")

    def take_update(self, number: int, packed: bytes) -> None:
        """The masked update of a UE."""
        if self._turns.due != (pb.MASKED, UPDATE):
            raise RefusedError("late", "a masked update came that is not due")
        self._noted(number, partial(_add_masked, self.session, self._collector, UPDATE, number, packed))

    async def set_up(self, is_early: Callable[[], bool], *, limit_s: float) -> None:
        """Collect keys and hand them round, then shares; whoever has sent shares is a member, and vouches for all."""
        turns, collector = self._turns, self._collector
        while is_early():
            await until(lambda: not is_early(), turns.changed, PHASE_S)
        await turns.wait(limit_s)
        for number in sorted(turns.heard & turns.present.keys()):
            try:
                self._tried(number, partial(collector.add_advert, number, self._adverts[number]))
            except RefusedError as error:
                self._side.attendance.strike(number, f"{error.code}: {error.reason}")
        adverts = collector.adverts()
        turns.keep(adverts)
        turns.turn(pb.SHARES, "", adverts)
        turns.send(list(turns.present.values()), pb.ROSTER, adverts)
        await turns.wait(limit_s)
        turns.keep(turns.heard)
        inboxes = {number: collector.shares_for(number) for number in turns.present}
        turns.turn(pb.VOTES, MEMBERS, inboxes)
        for number, inbox in inboxes.items():
            turns.send([turns.present[number]], pb.SHARED, inbox)
        await turns.wait(limit_s)
        vouchers = set(collector.vouched.close()) & turns.present.keys()
        turns.turn(pb.MASKED, self.session.instances[0].name, vouchers)
        for number in vouchers:
            turns.send([turns.present[number]], pb.VOTED, collector.vouched.of(number))

    async def masked_sketches(self, of: Collection[int], *, limit_s: float) -> None:
        """Wait for the masked sketches of those who have computed."""
        self._turns.ask_alone(of, limit_s)
        await self._turns.wait(limit_s)

    def begin_updates(self, of: Collection[int]) -> set[int]:
        """Masked updates are due; of whom."""
        self._turns.turn(pb.MASKED, UPDATE, of)
        return set(self._turns.asked)

    async def summed(
        self, name: str, *, limit_s: float, only_of: Collection[int] | None = None
    ) -> tuple[WordArray, list[int]]:
        """The sum of what has come, and of whom, once those agree on who they are and uncover what masks it."""
        survivors, wanted = self._collector.survivors(name), self._uncovering.shown.get(name)
        if only_of is not None and set(survivors) != set(only_of):
            left = sorted(set(only_of) - set(survivors))
            raise LeftBetweenError(f"UEs {left} left between the sums of sketches and of updates (secure.leavers)")
        if wanted is not None and survivors != wanted:
            raise TooFewError(f"come again of those whose {name} may be uncovered", len(survivors), len(wanted))
        await self._uncovering.asked(name, survivors, limit_s)
        if len(survivors) * self.session.instance(name).length <= _QUICK:
            return self._collector.sum(name), survivors
        return await asyncio.to_thread(self._collector.sum, name), survivors

    # what comes

    def _adding(self, number: int, step: SecureStep) -> Callable[[], None]:
        collector = self._collector
        match step.kind:
            case pb.KEYS:
                return partial(self._adverts.__setitem__, number, alone(step, number))
            case pb.SHARES:
                return partial(collector.add_shares, number, step.entries)
            case pb.MASKED if step.sum == SKETCH:
                return partial(_add_masked, self.session, collector, SKETCH, number, alone(step, number))
            case pb.VOTES if step.sum == MEMBERS:
                return partial(collector.vouched.add, number, step.entries)
            case pb.VOTES:
                return partial(collector.add_votes, step.sum, number, step.entries)
            case pb.REVEALED:
                return partial(collector.add_revealed, step.sum, number, alone(step, number))
        raise RefusedError("unexpected", f"step {step.kind} of a secure sum is an edge's, or travels as a vector")

    def _noted(self, number: int, add: Callable[[], None]) -> None:
        """Add what a UE was asked for, once."""
        if number not in self._turns.owing:
            raise RefusedError("repeated", f"a step of UE {number} came again, or was not asked for")
        self._tried(number, add)
        self._turns.answered(number)

    def _tried(self, number: int, add: Callable[[], None]) -> None:
        try:
            add()
        except SecrecyError as error:
            self._turns.lose(number)
            raise RefusedError("malformed", f"UE {number} falls out of the secure sum: {error}") from None

    def _blame(self, by: int, whom: Collection[int]) -> None:
        """Note whose shares a UE could not open; where too many could not, its masks could never be taken away."""
        turns = self._turns
        if by in whom:
            raise RefusedError("identity", f"UE {by} complains about shares of its own")
        for number in whom:
            self._blamed.setdefault(number, set()).add(by)
        for number, blaming in self._blamed.items():
            if len(turns.present) - len(blaming) < self.session.threshold and turns.broken is None:
                reason = f"UEs {sorted(blaming)} cannot open the shares of UE {number}"
                turns.broken = dispute(reason, self._blamed, self.session)
                turns.changed.set()


def _add_masked(session: Session, collector: Collector, name: str, number: int, packed: bytes) -> None:
    """A UE's masked words of a sum, as they came."""
    one = session.instance(name)
    collector.add_masked(name, number, unpacked(packed, one.length, bits_sent(one.bits)))
