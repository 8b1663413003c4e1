"""Sending at a planned pace: the last byte leaves when the plan says that it arrives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hpfl.deployment.wire import CHUNK_BYTES, Tag, Vector, vector_frames

_PIECE_S = 0.02
_LEAST_PIECE_BYTES = 16 * 1024

Send = Callable[[bytes], Awaitable[None]]


def piece_bytes(nbytes: int, seconds: float) -> int:
    """Bytes of one piece: some fifty a second, none above 1 MB."""
    pieces = max(seconds / _PIECE_S, 1.0)
    return int(min(max(nbytes / pieces, _LEAST_PIECE_BYTES), CHUNK_BYTES))


async def send_vector(send: Send, tag: Tag, vector: Vector, *, within_s: float = 0.0, **head: Any) -> None:
    """Send a vector in `within_s` seconds, as a link of that rate would; with 0 as fast as it goes."""
    began = asyncio.get_running_loop().time()
    step = piece_bytes(vector.nbytes, within_s)
    pieces = -(-vector.nbytes // step)
    for number, frame in enumerate(vector_frames(tag, vector, chunk_bytes=step, **head), start=1):
        if within_s > 0:
            await sleep_until(began + within_s * number / pieces)
        await send(frame)


async def sleep_until(moment_s: float) -> None:
    """Sleep to a moment of the event loop's clock."""
    await asyncio.sleep(max(moment_s - asyncio.get_running_loop().time(), 0.0))
