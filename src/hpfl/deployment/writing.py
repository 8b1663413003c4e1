"""One write to a stream, which is never cut short: gRPC ends a whole stream when a write to it is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import grpc


class StuckError(ConnectionError):
    """The peer has taken nothing for too long."""


async def written(write: Coroutine[Any, Any, None], *, within_s: float, peer: str) -> None:
    """Wait for a write; a caller that is cancelled leaves only once it is through, so that the stream stays whole."""
    writing = asyncio.ensure_future(write)
    writing.add_done_callback(_seen)
    try:
        await asyncio.wait({writing}, timeout=within_s)
    except asyncio.CancelledError:
        await asyncio.wait({writing}, timeout=within_s)
        raise
    if not writing.done():
        raise StuckError(f"{peer} took no message for {within_s:g} s")
    if writing.cancelled():
        raise ConnectionError(f"the stream to {peer} has ended")
    try:
        writing.result()
    except (asyncio.InvalidStateError, grpc.RpcError, grpc.aio.BaseError) as error:
        raise ConnectionError(f"{peer} is gone") from error


def _seen(writing: "asyncio.Future[None]") -> None:
    """Look at the outcome of a write nobody waits for any more, or it would be reported as forgotten."""
    if not writing.cancelled():
        writing.exception()
