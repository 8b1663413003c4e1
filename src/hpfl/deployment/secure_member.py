"""A UE in the secure sums of its cell: one session at a time, each by keys of its own, and nothing revealed twice."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hpfl.config import Experiment
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import training_slots
from hpfl.deployment.own_updates import OwnUpdate
from hpfl.deployment.parent_link import ParentLink
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_format import CellAgreed, SecureFormat, draws_ahead, made_format, packed_words, whole_weight
from hpfl.deployment.secure_history import SumHistory
from hpfl.deployment.secure_trust import DeploymentTrust, check_name
from hpfl.deployment.secure_wire import SKETCH, UPDATE, SecureStep, read_step, step_body
from hpfl.deployment.settings import SettingsError, UeNodeSettings
from hpfl.deployment.wire import Tag, Vector
from hpfl.learning import Draws
from hpfl.secrecy import CertifiedMember, ChannelLinks, Member, SecrecyError
from hpfl.secrecy.words import WordArray

_SECURE, _MOST_WAITING = "secure", 4
_AT_ONCE = 2**18
"""Numbers of an update that are masked where they are, and not in a thread of their own."""


@dataclass
class _Session:
    """One session: what comes, and what has been computed meanwhile."""

    tag: Tag
    attempt: bytes
    agreed: CellAgreed
    member: Member
    steps: "asyncio.Queue[SecureStep]" = field(default_factory=asyncio.Queue)
    masked: asyncio.Event = field(default_factory=asyncio.Event)
    words: WordArray | None = None
    writing: "asyncio.Future[None] | None" = None
    listed: dict[str, frozenset[int]] = field(default_factory=dict)
    uncovered: set[str] = field(default_factory=set)
    draws: Draws | None = None
    upload: Vector | None = None
    answers: bool = False
    over: bool = False

    @property
    def sums(self) -> tuple[str, ...]:
        """What is summed in it."""
        return (UPDATE,) if self.tag.edge_round else (SKETCH, UPDATE)

    async def next(self, kind: int) -> SecureStep:
        """What comes next of its set-up, which is to be of this kind."""
        step = await self.steps.get()
        if (step.kind, step.sum) != (kind, ""):
            raise SecrecyError(f"step {step.kind} of {step.sum!r} came from the edge, due is step {kind}")
        return step

    def prepare(self, format_: SecureFormat, number: int) -> None:
        """What of a masked update does not depend on it: the mask, and the draws that round."""
        self.member.prepare(UPDATE)
        if self.draws is None:
            self.draws = draws_ahead(format_, self.tag, number)

    def end(self) -> None:
        """Nothing more comes of it, for whoever waits for it too."""
        self.over, self.upload = True, None
        self.masked.set()


class SecureMember:
    """A UE's part: a session is set up while it computes; what it has computed is masked as soon as both are there."""

    def __init__(self, settings: UeNodeSettings, work: SharedWork, link: ParentLink, num_samples: int) -> None:
        self.format = made_format(work)
        self._edge, self._cell = settings.edge_name, cell_of(work.config, settings.number)
        self._slots = training_slots(work.config, self._cell, work.newcomers)
        self._number, self._link = settings.number, link
        self._weight = whole_weight(work.config, num_samples)
        check_name(settings.name, settings.number)
        self._trust = DeploymentTrust(settings.tls)
        self._links = ChannelLinks()
        self._session: _Session | None = None
        self._held: tuple[Tag, OwnUpdate] | None = None
        self._computed = asyncio.Event()
        self._history = SumHistory(Path(settings.state), alike=work.config.secure.leavers == "refused")

    # what the UE says

    def detached(self) -> None:
        """The stream has ended: a session goes on where all is masked, and its sums have to be uncovered alone."""
        self._links = ChannelLinks()
        if self._session is None or not self._session.answers:
            self.end_session()
            self._link.background.cancel(_SECURE)

    def end_session(self) -> None:
        """Another attempt may begin, by other keys."""
        if self._session is not None:
            self._session.end()
        self._session = None

    def holds(self, tag: Tag, own: OwnUpdate) -> None:
        """The update on a model is there, and its sketch."""
        self._held = (tag, own)
        self._computed.set()

    async def masked_update(self, tag: Tag) -> Vector | None:
        """What an order asks for; None where this UE takes no part in the sum."""
        session = self._session
        if session is None or not session.tag.about_same_model(tag):
            return None
        await session.masked.wait()
        return session.upload

    # what the edge says

    def take(self, tag: Tag, message: Any) -> None:
        """A step of the edge's: the opening of an attempt, or the next of the one in hand."""
        step = read_step(message, self._slots)
        if step.kind == pb.OPEN:
            self.format.check_agreed(step.agreed)
            self._link.background.start(_SECURE, self._opened(tag, step))
        elif self._session is None and step.kind in {pb.SURVIVORS, pb.VOTED}:  # of a session that it has forgotten
            sits_out = step_body(pb.SITS_OUT, step.attempt, {self._number: b"it was started again"})
            self._link.background.start("sits out", self._link.say(tag, **sits_out))
        elif self._session is None or step.attempt != self._session.attempt:
            raise RefusedError("stale", "a step of a secure sum came that this UE has no part in")
        elif self._session.steps.qsize() < _MOST_WAITING:
            self._session.steps.put_nowait(step)
        else:
            raise RefusedError("crowded", f"{_MOST_WAITING} steps of a secure sum wait for their turn")

    async def _opened(self, tag: Tag, step: SecureStep) -> None:
        self.end_session()
        if self._trust.look():
            self._links = ChannelLinks()
        session = self._session = await asyncio.to_thread(self._made, tag, step)
        try:
            await self._take_part(session)
        except SecrecyError as error:
            await self._sit_out(session, str(error))
        finally:
            session.masked.set()

    def _made(self, tag: Tag, step: SecureStep) -> _Session:
        own = self._trust.own
        key = load_pem_private_key(own.files.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SettingsError("tls.private_key is not an elliptic-curve key, which secure sums are signed with")
        identity = CertifiedMember(self._number, own.certificate, key)
        session = self.format.session(
            tag, edge=self._edge, attempt=step.attempt, agreed=step.agreed, slots=len(self._slots)
        )
        agreed = CellAgreed(self._cell, step.agreed)
        return _Session(tag, step.attempt, agreed, Member(session, identity, self._trust, self._links))

    async def _take_part(self, session: _Session) -> None:
        member, tag = session.member, session.tag
        await self._set_up(session)
        if tag.edge_round == 0:
            await asyncio.to_thread(member.prepare, SKETCH)
        if _about(self._held, tag) is None:
            await asyncio.to_thread(session.prepare, self.format, self._number)
        while (own := _about(self._held, tag)) is None:
            self._computed.clear()
            await self._computed.wait()
        if tag.edge_round == 0:
            masked = member.masked(SKETCH, self.format.sketch_words(own.sketch, self._weight, tag, self._number))
            packed = packed_words(masked, self.format.sketch.bits).tobytes()
            await self._say(session, pb.MASKED, {self._number: packed}, of=SKETCH)
        session.answers, first = True, session.sums[0]
        masking = [asyncio.ensure_future(self._mask(session, own))]
        try:
            while True:
                if len(masking) == 1 and (first == UPDATE or first in session.uncovered):
                    masking.append(asyncio.ensure_future(self._finish_masking(session, own, masking[0])))
                await self._answer(session, await session.steps.get())
        finally:
            for one in masking:
                one.cancel()

    async def _set_up(self, session: _Session) -> None:
        """Keys, shares, and that all know the same members: nothing of it depends on the update."""
        member = session.member
        await self._say(session, pb.KEYS, {self._number: member.advert()})
        roster = await session.next(pb.ROSTER)
        shares = await asyncio.to_thread(member.shares, roster.entries)
        await self._say(session, pb.SHARES, shares)
        shared = await session.next(pb.SHARED)
        await asyncio.to_thread(member.receive, shared.entries)
        if member.unopened:
            await self._say(session, pb.COMPLAINT, dict.fromkeys(member.unopened, b""))
        await self._say(session, pb.VOTES, await asyncio.to_thread(member.standing.vouch))
        vouched = await session.next(pb.VOTED)
        try:
            member.standing.believe(vouched.entries)
        except SecrecyError as error:
            log("no list of members stands", level=logging.WARNING, round=session.tag.round, reason=str(error))
            return
        members = {*shared.entries, self._number}
        await asyncio.to_thread(self._history.expect, session.tag, session.sums, members)

    async def _mask(self, session: _Session, own: OwnUpdate) -> None:
        """The masked update; anew where fewer are left to mask it with."""

        def masked() -> Vector:
            if session.words is None:
                session.prepare(self.format, self._number)
                about = (self._weight, session.tag, session.agreed, self._number)
                session.words = self.format.update_words(own.arrives, *about, own.levels, session.draws)
            return packed_words(session.member.masked(UPDATE, session.words), self.format.update.bits)

        is_quick = session.draws is not None and own.arrives.size <= _AT_ONCE
        try:
            session.upload = masked() if is_quick else await asyncio.to_thread(masked)
        except SecrecyError as error:
            await self._sit_out(session, str(error))

    async def _finish_masking(self, session: _Session, own: OwnUpdate, masking: "asyncio.Future[None]") -> None:
        """The first sum is uncovered, if there is one: its survivors are those with whom an update is masked."""
        await masking
        if not session.over and session.member.is_masked_anew(UPDATE):
            await self._mask(session, own)
        session.masked.set()

    async def _answer(self, session: _Session, step: SecureStep) -> None:
        """Uncover a sum of survivors whose list stands; else vouch for it, and uncover it once enough others do."""
        member, of, listed = session.member, step.sum, session.listed
        if step.kind == pb.SURVIVORS:
            listed[of] = frozenset(step.entries)
            self._history.check(session.tag, of, listed[of])
        elif step.kind != pb.VOTED or of not in listed:
            raise SecrecyError(f"step {step.kind} of {of!r} came from the edge, and is not due")
        survivors = listed[of]
        if step.kind == pb.SURVIVORS and not member.standing.is_of(survivors):
            votes, sums = member.vote(of, survivors), session.sums[session.sums.index(of) :]
            session.writing = asyncio.ensure_future(
                asyncio.to_thread(self._history.expect, session.tag, sums, survivors)
            )
            session.writing.add_done_callback(_seen)
            await self._say(session, pb.VOTES, votes, of=of)
            return
        if session.writing is not None:
            await session.writing
        is_asked = step.kind == pb.VOTED
        data = member.reveal(of, step.entries) if is_asked else member.reveal_standing(of, survivors)
        if not self._history.has(session.tag, of, survivors):
            await asyncio.to_thread(self._history.note, session.tag, of, survivors)
        await self._say(session, pb.REVEALED, {self._number: data}, of=of)
        session.uncovered.add(of)

    async def _say(self, session: _Session, kind: int, entries: dict[int, bytes], *, of: str = "") -> None:
        if not session.over:
            await self._link.say(session.tag, **step_body(kind, session.attempt, entries, of=of))

    async def _sit_out(self, session: _Session, why: str) -> None:
        """Say so: nobody waits for this UE until the next attempt."""
        log("sits out of a secure sum", level=logging.WARNING, round=session.tag.round, reason=why)
        await self._say(session, pb.SITS_OUT, {self._number: why.encode()[:400]})
        session.end()
        if self._session is session:
            self._session = None


def _about(held: tuple[Tag, OwnUpdate] | None, tag: Tag) -> OwnUpdate | None:
    """The update on a model, if it is what is held."""
    return held[1] if held is not None and held[0].about_same_model(tag) else None


def _seen(writing: "asyncio.Future[None]") -> None:
    """Look at how it went, if nobody waits for it any more."""
    if not writing.cancelled():
        writing.exception()


def cell_of(config: Experiment, number: int) -> int:
    """The number of the edge whose UE has a number: thresholds count all UEs that are configured there."""
    return int((config.network.ues_of_edges.cumsum() <= number).sum())
