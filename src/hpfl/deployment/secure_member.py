"""A UE in the secure sums of its cell: one session at a time, each by keys of its own, and nothing revealed twice."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hpfl.arrays import FloatArray, IntArray
from hpfl.config import Experiment
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import ue_slots
from hpfl.deployment.parent_link import ParentLink
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_format import CellAgreed, made_format, packed_words, whole_weight
from hpfl.deployment.secure_history import SumHistory
from hpfl.deployment.secure_trust import DeploymentTrust, check_name
from hpfl.deployment.secure_wire import SKETCH, UPDATE, SecureStep, read_step, step_body
from hpfl.deployment.settings import SettingsError, UeNodeSettings
from hpfl.deployment.wire import Tag, Vector
from hpfl.secrecy import CertifiedMember, ChannelLinks, Member, SecrecyError

_SECURE, _MOST_WAITING = "secure", 4


@dataclass
class _Session:
    """One session: what comes, and what has been computed meanwhile."""

    tag: Tag
    attempt: bytes
    agreed: CellAgreed
    member: Member
    steps: "asyncio.Queue[SecureStep]" = field(default_factory=asyncio.Queue)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    def end(self) -> None:
        """Nothing more comes of it, for whoever waits for it too."""
        self.over = True
        self.ready.set()


class SecureMember:
    """A UE's part; `sketch` of the update that is held is masked as soon as both are there."""

    def __init__(self, settings: UeNodeSettings, work: SharedWork, link: ParentLink, num_samples: int) -> None:
        self.format = made_format(work)
        self._edge, self._cell = settings.edge_name, cell_of(work.config, settings.number)
        self._slots = ue_slots(work.config, self._cell)
        self._number, self._link = settings.number, link
        self._weight = whole_weight(work.config, num_samples)
        check_name(settings.name, settings.number)
        self._trust = DeploymentTrust(settings.tls)
        self._links = ChannelLinks()
        self._session: _Session | None = None
        self._held: tuple[Tag, FloatArray] | None = None
        self._computed = asyncio.Event()
        self._history = SumHistory(Path(settings.state), alike=work.config.secure.leavers == "refused")

    # what the UE says

    def detached(self) -> None:
        """The stream has ended, and with it the session: its keys are never used again."""
        self.end_session()
        self._links = ChannelLinks()
        self._link.background.cancel(_SECURE)

    def end_session(self) -> None:
        """Another attempt may begin, by other keys."""
        if self._session is not None:
            self._session.end()
        self._session = None

    def holds(self, tag: Tag, sketch: FloatArray) -> None:
        """The update on a model is there, and its sketch."""
        self._held = (tag, sketch)
        self._computed.set()

    async def masked_update(self, tag: Tag, update: Vector, levels: IntArray | None = None) -> Vector | None:
        """What an order asks for, as `levels` where these are given; None where this UE takes no part in the sum."""
        session = self._session
        if session is None or not session.tag.about_same_model(tag):
            return None
        await session.ready.wait()
        if session.over:
            return None
        about = (self._weight, tag, session.agreed, self._number)
        words = await asyncio.to_thread(self.format.update_words, update, *about, levels)
        try:
            masked = await asyncio.to_thread(session.member.masked, UPDATE, words)
        except SecrecyError as error:
            await self._sit_out(session, str(error))
            return None
        return None if session.over else packed_words(masked, self.format.update.bits)

    # what the edge says

    def take(self, tag: Tag, message: Any) -> None:
        """A step of the edge's: the opening of an attempt, or the next of the one in hand."""
        step = read_step(message, self._slots)
        if step.kind == pb.OPEN:
            self.format.check_agreed(step.agreed)
            self._link.background.start(_SECURE, self._opened(tag, step))
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
            session.ready.set()

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
        member = session.member
        await self._say(session, pb.KEYS, {self._number: member.advert()})
        roster = await self._next(session, pb.ROSTER)
        shares = await asyncio.to_thread(member.shares, roster.entries)
        await self._say(session, pb.SHARES, shares)
        await asyncio.to_thread(member.receive, (await self._next(session, pb.SHARED)).entries)
        if member.unopened:
            await self._say(session, pb.COMPLAINT, dict.fromkeys(member.unopened, b""))
        session.ready.set()
        if session.tag.edge_round == 0:
            computes = not self._has_computed(session.tag)
            if computes:  # masks of the update can be made meanwhile
                await asyncio.to_thread(member.prepare, UPDATE)
            words = self.format.sketch_words(
                await self._own_sketch(session.tag), self._weight, session.tag, self._number
            )
            masked = await asyncio.to_thread(member.masked, SKETCH, words)
            packed = packed_words(masked, self.format.sketch.bits).tobytes()
            await self._say(session, pb.MASKED, {self._number: packed}, of=SKETCH)
            if not computes:
                await asyncio.to_thread(member.prepare, UPDATE)
            await self._agree(session, SKETCH)
        else:
            await asyncio.to_thread(member.prepare, UPDATE)
        await self._agree(session, UPDATE)

    async def _agree(self, session: _Session, of: str) -> None:
        """Vouch for one list of survivors, and uncover what masks their sum once enough others vouch for it too."""
        survivors = frozenset((await self._next(session, pb.SURVIVORS, of)).entries)
        self._history.check(session.tag, of, survivors)
        votes = await asyncio.to_thread(session.member.vote, of, survivors)
        await self._say(session, pb.VOTES, votes, of=of)
        voted = await self._next(session, pb.VOTED, of)
        data = await asyncio.to_thread(session.member.reveal, of, voted.entries)
        await asyncio.to_thread(self._history.note, session.tag, of, survivors)
        await self._say(session, pb.REVEALED, {self._number: data}, of=of)

    async def _own_sketch(self, tag: Tag) -> FloatArray:
        """That of the update on a model, once it is there."""
        while self._held is None or not self._has_computed(tag):
            self._computed.clear()
            await self._computed.wait()
        return self._held[1]

    def _has_computed(self, tag: Tag) -> bool:
        """Whether the update on a model is there."""
        return self._held is not None and self._held[0].about_same_model(tag)

    async def _next(self, session: _Session, kind: int, of: str = "") -> SecureStep:
        step = await session.steps.get()
        if (step.kind, step.sum) != (kind, of):
            raise SecrecyError(f"step {step.kind} of {step.sum!r} came from the edge, due is step {kind} of {of!r}")
        return step

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


def cell_of(config: Experiment, number: int) -> int:
    """The number of the edge whose UE has a number: thresholds count all UEs that are configured there."""
    return int((config.network.ues_of_edges.cumsum() <= number).sum())
