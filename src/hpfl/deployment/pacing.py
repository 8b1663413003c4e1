"""Sending at a planned pace: the last byte leaves when the plan says that it arrives."""

import asyncio
from collections.abc import Iterator
from typing import Any

from hpfl.deployment.wire import CHUNK_BYTES, Tag, Vector, vector_frames

_PIECE_S = 0.02
_LEAST_PIECE_BYTES = 16 * 1024
_LONGEST_PIECE_S = 1.0
_SHARE_OF_SILENCE = 0.25
"""Of the longest silence that a receiver allows, what one piece may take."""


def piece_bytes(nbytes: int, seconds: float, *, silent_s: float) -> int:
    """Bytes of one piece: some fifty a second, none above 1 MB.

    Pieces below 16 kB are only for rates at which such a one would leave the receiver, who cuts off who is silent for
    `silent_s`, waiting too long.
    """
    pieces = max(seconds / _PIECE_S, 1.0)
    fewest = max(seconds / min(_LONGEST_PIECE_S, _SHARE_OF_SILENCE * silent_s), 1.0)
    wanted = min(max(nbytes / pieces, _LEAST_PIECE_BYTES), nbytes / fewest, CHUNK_BYTES)
    return max(int(wanted), 1)


def paced_frames(
    tag: Tag,
    vector: Vector,
    *,
    within_s: float = 0.0,
    since_s: float | None = None,
    silent_s: float,
    purpose: int,
    **head: Any,
) -> Iterator[tuple[float, bytes]]:
    """A vector's frames and when each leaves (s of the event loop's clock), spread over `within_s` from `since_s` on.

    So would a link of that rate send them; with 0 they leave as fast as it goes. None: from now on.
    """
    began = asyncio.get_running_loop().time() if since_s is None else since_s
    step = piece_bytes(vector.nbytes, within_s, silent_s=silent_s)
    pieces = -(-vector.nbytes // step)
    frames = vector_frames(tag, vector, purpose=purpose, chunk_bytes=step, **head)
    for number, frame in enumerate(frames, start=1):
        yield began + within_s * number / pieces, frame
