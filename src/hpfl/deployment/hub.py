"""The parent's end of all streams: proves who children are, reads what they send, refuses what is wrong."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.admission import Admission, ProvenChild
from hpfl.deployment.attached_children import AttachedChildren
from hpfl.deployment.checks import check_hello, check_name
from hpfl.deployment.doors import STREAMS_BY_NAME, Doors, place_of
from hpfl.deployment.greeting import Shapes, remembered
from hpfl.deployment.hub_parent import Parent
from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.logs import log
from hpfl.deployment.open_files import connections_for
from hpfl.deployment.peer_text import plain
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.rosters import num_slots
from hpfl.deployment.security import server_credentials, server_options
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import LimitSettings, SettingsError, TlsSettings
from hpfl.deployment.stream import TierStream, go_on
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import METHOD, Arrival, Tag, decode, encode

_GRACE_S, _PASSING = 0.1, 64
"""How long streams may take to end, and how many there are at once of those who are turned away."""
_FAREWELLS, _FAREWELL_S = 4, 0.75
_REFUSED_FOR_GOOD = frozenset({"identity", "version", "configuration", "samples"})
"""Rules by which a greeting would be refused again, however often it came."""

Ended = tuple[grpc.StatusCode, str]
"""How a stream has ended, and why."""


@dataclass(eq=False)
class Child:
    """One attached stream and who is at its other end; the `model` it holds, handed to it at `handed_s`.

    It `may_repeat` its sketch as often as it was asked for it again. A newcomer `never_trains`.
    """

    proven: ProvenChild
    hello: Any
    stream: TierStream
    shut_out: bool = False
    refusals: int = 0
    asked_again: bool = False
    may_repeat: int = 0
    model: bytes = b""
    handed_s: float = 0.0
    never_trains: bool = False

    @property
    def trains(self) -> bool:
        """Whether it takes part in rounds: neither a visitor nor a newcomer."""
        return not (self.hello.visitor or self.never_trains)

    @property
    def name(self) -> str:
        """The name it has proved."""
        return self.proven.name

    @property
    def number(self) -> int:
        """Its slot."""
        return self.proven.number


class Hub:
    """The `Tier` service: one stream per child, the newest one counts; the same at cloud and edges.

    `children` take part in rounds, `onlookers` are `newcomers` that never do; both are found by their numbers.
    """

    def __init__(
        self,
        parent: Parent,
        roster: Mapping[str, int],
        *,
        shapes: Shapes,
        limits: LimitSettings,
        metrics: Metrics,
        newcomers: Collection[int] = (),
    ) -> None:
        self.there = AttachedChildren()
        self.children, self.onlookers = self.there.children, self.there.onlookers
        self._newcomers = newcomers
        self.metrics, self.is_listening = metrics, False
        self._parent = parent
        self._roster = roster
        self._shapes = shapes
        self._limits = limits
        self._doors = Doors(roster, limits)
        self._server: Any = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._open: set[Child] = set()

    async def start(self, listen: str, tls: TlsSettings) -> int:
        """Listen at `host:port`; the port, which the system chooses where 0 is asked for."""
        slots = num_slots(self._roster)
        self._server = grpc.aio.server(
            options=server_options(self._limits, connections=connections_for(slots, self._limits)),
            maximum_concurrent_rpcs=STREAMS_BY_NAME * slots + _PASSING,
        )
        own = OwnIdentity(tls)
        self._admission = Admission(self._roster, own, tls.revoked)
        service, method = METHOD.strip("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        try:
            port = int(self._server.add_secure_port(listen, server_credentials(lambda: own.files)))
        except RuntimeError:
            raise SettingsError(f"cannot listen at {listen}; is another process there, or a certificate bad?") from None
        await self._server.start()
        self.is_listening = True
        self._spawn(self._doors.watch(port))
        log("listening", port=port)
        self._spawn(self._admission.watch_over(self._open, self.metrics.expires))
        return port

    async def stop(self) -> None:
        """End all streams and stop listening; what was taken from them stays taken."""
        self.is_listening = False
        for child in list(self.there.everybody.values()):
            child.stream.end()
        if self._server is not None:
            await self._server.stop(_GRACE_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def send_all(
        self, frames: Sequence[bytes], children: list[Child], *, at_once: int, still: Callable[[], bool] = lambda: True
    ) -> asyncio.Task[None] | None:
        """Begin to send the same bytes to many children, a bounded number at a time, while they are `still` wanted."""
        turn = asyncio.Semaphore(at_once)

        async def one(child: Child) -> None:
            with suppress(ConnectionError):  # whoever is gone is left to `detached`
                async with turn:
                    if still():
                        await child.stream.send(*frames)

        async def everyone() -> None:
            await asyncio.gather(*(one(child) for child in children))
            self.metrics.sent.inc(sum(map(len, frames)) * len(children))

        return self._spawn(everyone()) if children else None

    async def say_farewell(self, frame: bytes, *, at_once: int) -> None:
        """Send everybody the last word, again if need be, until they have left or have had time enough."""
        for _ in range(_FAREWELLS):
            self.send_all([frame], list(self.there.everybody.values()), at_once=at_once)
            if await until(lambda: not self.there.everybody, self._left, _FAREWELL_S):
                return

    async def _attach(self, _requests: Any, context: Any) -> None:
        try:
            proven = self._admission.proven(context.auth_context())
            with self._doors.room(proven.name, context.peer()):
                status, why = await self._serve(proven, context)
        except RefusedError as error:
            self._count(error, place_of(context.peer())[0])
            for_good = error.code in _REFUSED_FOR_GOOD
            status = grpc.StatusCode.PERMISSION_DENIED if for_good else grpc.StatusCode.ABORTED
            why = f"{error.code}: {error.reason}"
        except TimeoutError:
            status, why = grpc.StatusCode.DEADLINE_EXCEEDED, "no greeting came in time"
        if status is not grpc.StatusCode.OK:
            await context.abort(status, why)

    async def _serve(self, proven: ProvenChild, context: Any) -> Ended:
        """Greet a child and hear it out; how its stream has ended, and why."""
        child, welcome = await self._greeted(proven, context)
        self._enter(child)
        try:
            async with asyncio.timeout(self._limits.visit_s if child.hello.visitor else None):
                await child.stream.send(welcome)
                self._parent.attached(child)
                return await self._listen(child)
        except (ConnectionError, grpc.aio.BaseError) as error:
            log("stream broke", level=logging.DEBUG, child=child.name, reason=str(error))
            return grpc.StatusCode.ABORTED, plain(str(error))
        except TimeoutError:
            return grpc.StatusCode.DEADLINE_EXCEEDED, f"a visit ends after {self._limits.visit_s:g} s"
        except asyncio.CancelledError:
            if not child.stream.why_ended:
                raise
            go_on()
            if child.shut_out:
                raise RefusedError("identity", child.stream.why_ended) from None
            return grpc.StatusCode.ALREADY_EXISTS, child.stream.why_ended
        finally:
            self._leave(child)

    async def _greeted(self, proven: ProvenChild, context: Any) -> tuple[Child, bytes]:
        async with asyncio.timeout(self._limits.handshake_s):
            data = await context.read()
        if data is grpc.aio.EOF:
            raise RefusedError("malformed", "the stream ended without a greeting")
        tag, frame = decode(data)
        if frame.WhichOneof("body") != "hello":
            raise RefusedError("unexpected", "the first message is not a greeting")
        check_hello(frame.hello, tag=tag, name=proven.name)
        self._admission.check(proven)  # files may have changed while it took its time
        self._shapes.check(frame.hello, name=proven.name, number=proven.number)
        stream = _served(context, proven.name, self._limits, self.metrics)
        child = Child(proven, frame.hello, stream, never_trains=proven.number in self._newcomers)
        self._retire(child)
        answer = self._parent.greet(child, tag)
        child.hello = remembered(frame.hello)
        keeps, proof = answer.about_same_model(tag) and frame.hello.holds, frame.hello.challenge
        return child, encode(answer, welcome=pb.Welcome(keeps=keeps, **self._admission.proof(proof, proven)))

    def _retire(self, child: Child) -> None:
        """A child that comes anew has lost its old stream, whatever that stream believes."""
        before = None if child.hello.visitor else self.there.book_of(child).pop(child.number, None)
        if before is not None:
            log("child attached anew", child=child.name)
            self._parent.detached(before)
            before.stream.end(f"another process has attached as {child.name!r}; only the newest counts")

    def _enter(self, child: Child) -> None:
        self._open.add(child)
        if child.hello.visitor:
            return
        self.there.book_of(child)[child.number] = child
        self.metrics.attachments.inc()
        self.metrics.attached.set(len(self.there.everybody))

    def _leave(self, child: Child) -> None:
        self._open.discard(child)
        if child.hello.visitor:
            self._parent.detached(child)
        elif self.there.book_of(child).get(child.number) is child:
            del self.there.book_of(child)[child.number]
            self._parent.detached(child)
            self._left.set()
            log("child left", child=child.name)
        self.metrics.attached.set(len(self.there.everybody))

    async def _listen(self, child: Child) -> Ended:
        try:
            await child.stream.listen(
                lambda tag, begin: self._parent.expects(child, tag, begin),
                lambda tag, content: _hand_over(self._parent, child, tag, content),
                lambda error: self._refuse(child, error),
            )
        except RefusedError as error:
            self._count(error, child.name)
            return grpc.StatusCode.ABORTED, f"{error.code}: {error.reason}"
        return grpc.StatusCode.OK, ""

    async def _refuse(self, child: Child, error: RefusedError) -> None:
        self._count(error, child.name)
        child.refusals += 1
        if child.refusals > self._limits.refusals:
            raise ConnectionError(f"{child.name} sent more than {self._limits.refusals} messages that were refused")
        await child.stream.send(encode(Tag(), refusal=pb.Refusal(code=error.code, reason=error.reason)))

    def _count(self, error: RefusedError, who: str) -> None:
        self.metrics.refused.labels(error.code).inc()
        log("refused", level=logging.WARNING, child=who, code=error.code, reason=error.reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: work.close())  # work that was cancelled before its first step
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _hand_over(parent: Parent, child: Child, tag: Tag, content: Any) -> None:
    check_name(tag, name=child.name)
    if isinstance(content, Arrival):
        parent.take_vector(child, content)
    else:
        parent.take_message(child, tag, content)


def _served(context: Any, name: str, limits: LimitSettings, metrics: Metrics) -> TierStream:
    """The stream that the current task serves; whoever ends the one ends the other."""
    task = asyncio.current_task()
    assert task is not None
    return TierStream(context, peer=name, idle_s=limits.idle_s, cut=task.cancel, count=metrics.received.inc)
