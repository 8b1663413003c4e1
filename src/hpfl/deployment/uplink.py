"""A child's end of its stream: reaches the parent, comes back after every loss, and reads what the parent sends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc

from hpfl.deployment.inbox import Expects, Inbox
from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.security import client_credentials, client_options
from hpfl.deployment.settings import NodeSettings
from hpfl.deployment.wire import METHOD, Tag
from hpfl.deployment.writing import StuckError, written
from hpfl.rng import Streams

_GOODBYE_S = 5.0
_FIRST_RETRY_S = 0.2
_MOST_DOUBLINGS = 30  # far beyond any pause; a parent may be away for days
_REFUSED_FOR_GOOD = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)


class NotAdmittedError(Exception):
    """The parent has refused this node, and would again."""


@dataclass(eq=False)
class Uplink:
    """One open stream to the parent."""

    call: Any
    idle_s: float

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()
        self._ended = False
        self._over = asyncio.Event()

    def end(self) -> None:
        """Close the stream from this side; `messages` returns."""
        self._ended = True
        self.call.cancel()

    async def close(self) -> None:
        """Say that nothing more will come, and wait until the parent has read everything; not for ever."""
        with suppress(TimeoutError, grpc.aio.BaseError, asyncio.InvalidStateError):
            async with asyncio.timeout(_GOODBYE_S), self._lock:
                await self.call.done_writing()
                await self._over.wait()

    async def send(self, *frames: bytes) -> None:
        """Send frames, nothing in between."""
        async with self._lock:
            for frame in frames:
                await self._write(frame)

    async def send_through(self, work: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]) -> None:
        """Let `work` send frames of its own pace while nothing else comes between them."""
        async with self._lock:
            await work(self._write)

    async def messages(self, expects: Expects, handle: Callable[[Tag, Any], None]) -> None:
        """Hand over everything that comes until the stream ends; what is refused is noted and dropped."""
        try:
            await self._read_all(Inbox(expects), handle)
        finally:
            self._over.set()

    async def _read_all(self, inbox: Inbox, handle: Callable[[Tag, Any], None]) -> None:
        while True:
            try:
                async with asyncio.timeout(self.idle_s if inbox.is_busy else None):
                    data = await self.call.read()
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                if self._ended:
                    return
                raise ConnectionError("the stream has ended on this side") from None
            if data is grpc.aio.EOF:
                return
            came = None
            try:
                came = inbox.feed(data)
                if came is not None:
                    handle(*came)
            except RefusedError as error:
                log("refused parent's message", level=logging.WARNING, code=error.code, reason=error.reason)
            del data, came  # a model would be kept until the next message

    async def _write(self, frame: bytes) -> None:
        try:
            await written(self.call.write(frame), within_s=self.idle_s, peer="the parent")
        except StuckError:
            self.call.cancel()
            raise


def _is_cancelled() -> bool:
    """Whether this task is to end; gRPC says of a stream that has been cancelled the same as of a cancelled task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def stay_attached(
    settings: NodeSettings, address: str, parent: str, session: Callable[[Uplink], Awaitable[bool]]
) -> None:
    """Open a stream and run `session` on it, again and again with growing pauses, until it answers that all is done."""
    credentials = client_credentials(settings.tls)
    jitter = Streams(0).at(f"retry/{settings.name}").uniform(64)
    attempt = 0
    while True:
        began = asyncio.get_running_loop().time()
        if await _one_session(settings, address, parent, credentials, session):
            return
        lasted = asyncio.get_running_loop().time() - began
        attempt = 0 if lasted > settings.timing.retry_s else attempt + 1
        pause = min(_FIRST_RETRY_S * 1.6 ** min(attempt, _MOST_DOUBLINGS), settings.timing.retry_s)
        await asyncio.sleep(pause * (0.5 + float(jitter[attempt % 64])))


async def _one_session(
    settings: NodeSettings, address: str, parent: str, credentials: Any, session: Callable[[Uplink], Awaitable[bool]]
) -> bool:
    options = client_options(settings.limits, server=parent)
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        call = channel.stream_stream(METHOD)()
        try:
            return await session(Uplink(call, settings.limits.idle_s))
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, ConnectionError, TimeoutError) as error:
            await _judge(error, call, parent)
            return False
        finally:
            call.cancel()


async def _judge(error: Exception, call: Any, parent: str) -> None:
    """Note why a stream ended; whoever is not admitted need not come back."""
    code = await call.code() if call.done() else None
    detail = (await call.details() if call.done() else None) or str(error) or type(error).__name__
    log("lost the parent", parent=parent, reason=detail)
    if code in _REFUSED_FOR_GOOD:
        raise NotAdmittedError(f"{parent} does not admit this node: {detail}")
