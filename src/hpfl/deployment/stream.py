"""One end of a stream, the same for parents and children: whole frames out, one sender at a time, and frames in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import grpc

from hpfl.deployment.inbox import Expects, Inbox
from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag

_GOODBYE_S = 5.0

Handle = Callable[[Tag, Any], None]
"""Told of a whole vector (an `Arrival`) or of a message (a frame)."""

Refuse = Callable[[RefusedError], Awaitable[None]]
"""Told of what was refused."""


class TierStream:
    """What a node writes to and reads from one peer; `cut` ends the whole stream at once."""

    def __init__(
        self,
        call: Any,
        *,
        peer: str,
        idle_s: float,
        cut: Callable[[], object],
        count: Callable[[int], object] = lambda nbytes: None,
    ) -> None:
        self.received_bytes = 0
        self.idle_s = idle_s
        self.why_ended = ""
        self._call = call
        self._peer = peer
        self._cut = cut
        self._count = count
        self._lock = asyncio.Lock()
        self._ended = False
        self._over = asyncio.Event()

    @property
    def is_sending(self) -> bool:
        """Whether a message is on its way out."""
        return self._lock.locked()

    async def send(self, *frames: bytes) -> None:
        """Send frames, nothing in between."""
        async with self._lock:
            for frame in frames:
                await self._write(frame)

    async def send_timed(self, frames: Iterable[tuple[float, bytes]]) -> None:
        """Send frames, each not before its moment on the event loop's clock (s), nothing in between."""
        async with self._lock:
            for moment_s, frame in frames:
                await sleep_until(moment_s)
                await self._write(frame)

    def end(self, why: str = "") -> None:
        """Close the stream from this side; `listen` ends. A parent tells its child why, where there is a reason."""
        self._ended, self.why_ended = True, why
        self._cut()

    async def close(self) -> None:
        """Say that nothing more will come, and wait until the parent has read everything; not for ever."""
        with suppress(TimeoutError, grpc.aio.BaseError, asyncio.InvalidStateError):
            async with asyncio.timeout(_GOODBYE_S), self._lock:
                await self._call.done_writing()
                await self._over.wait()

    async def listen(self, expects: Expects, handle: Handle, refuse: Refuse) -> None:
        """Hand over everything that comes until the stream ends; one that stops inside a vector is refused."""
        inbox = Inbox(expects)
        try:
            while (data := await self._read(is_busy=inbox.is_busy)) is not None:
                self.received_bytes += len(data)
                self._count(len(data))
                try:
                    _take(inbox, data, handle)
                except RefusedError as error:
                    await refuse(error)
                del data  # the next read may be long in coming, and a thousand streams would keep a thousand updates
        finally:
            self._over.set()

    async def _read(self, *, is_busy: bool) -> bytes | None:
        """The next frame; None at the end of the stream."""
        try:
            async with asyncio.timeout(self.idle_s if is_busy else None):
                data: bytes = await self._call.read()
        except TimeoutError:
            raise RefusedError("late", "a vector stopped half-way") from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            if self._ended:
                return None
            raise ConnectionError("the stream has ended on this side") from None
        return None if data is grpc.aio.EOF else data

    async def _write(self, frame: bytes) -> None:
        """Write one frame, never cut short: gRPC ends a whole stream when a write to it is cancelled.

        A caller that is cancelled leaves only once the frame is through; a peer that does not take it is cut off.
        """
        writing = asyncio.ensure_future(self._call.write(frame))
        writing.add_done_callback(_seen)
        try:
            await asyncio.wait({writing}, timeout=self.idle_s)
        except asyncio.CancelledError:
            await asyncio.wait({writing}, timeout=self.idle_s)
            raise
        if not writing.done():
            log("peer does not read", level=logging.WARNING, peer=self._peer)
            self._cut()
            raise ConnectionError(f"{self._peer} took no message for {self.idle_s:g} s")
        if writing.cancelled():
            raise ConnectionError(f"the stream to {self._peer} has ended")
        try:
            writing.result()
        except (asyncio.InvalidStateError, grpc.RpcError, grpc.aio.BaseError) as error:
            raise ConnectionError(f"{self._peer} is gone") from error


async def sleep_until(moment_s: float) -> None:
    """Sleep to a moment of the event loop's clock; not at all where it has passed."""
    left_s = moment_s - asyncio.get_running_loop().time()
    if left_s > 0:
        await asyncio.sleep(left_s)


def _take(inbox: Inbox, data: bytes, handle: Handle) -> None:
    """Keeps nothing of what came once it has been handed over."""
    came = inbox.feed(data)
    if came is not None:
        handle(*came)


def _is_cancelled() -> bool:
    """Whether this task is to end; gRPC says of a stream that has been cancelled the same as of a cancelled task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _seen(writing: "asyncio.Future[None]") -> None:
    """Look at the outcome of a write nobody waits for any more, or it would be reported as forgotten."""
    if not writing.cancelled():
        writing.exception()


def go_on() -> None:
    """This task was cancelled to end its stream, and has one more thing to do: to say why."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
