"""Streams with bad manners: frames that are lost, come twice, or come late, by tier, direction and kind."""

import asyncio
import contextlib

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import decode

_LATE_S = 0.05


def kind_of(frame):
    """What a frame is: `order`, `sketch`, ..., and for vectors what they are for."""
    content = decode(frame)[1]
    kind = content.WhichOneof("body")
    return pb.Purpose.Name(content.begin.purpose).lower() if kind == "begin" else kind


def direction_of(stream):
    """Children write to calls that they have opened, parents to those they serve."""
    return "up" if hasattr(stream._call, "done_writing") else "down"


class Chaos:
    """Lets `fate(direction, kind)` decide on every frame while it is entered: None, lost, doubled or late."""

    def __init__(self, monkeypatch, fate):
        self._monkeypatch, self._fate = monkeypatch, fate
        self._plain = TierStream._write
        self._kept, self._tasks = {}, set()
        self.seen = []

    def __enter__(self):
        self._monkeypatch.setattr(TierStream, "_write", self._chaotic(self._plain))
        return self

    def __exit__(self, *exit_info):
        self._monkeypatch.setattr(TierStream, "_write", self._plain)

    def _chaotic(self, plain):
        async def write(stream, frame):
            direction = direction_of(stream)
            fate = self._fate(direction, kind_of(frame))
            if fate is not None:
                self.seen.append((direction, kind_of(frame), fate))
            if fate == "lost":
                return
            if fate == "late" and stream not in self._kept:
                self._keep(stream, frame, plain)
                return
            await plain(stream, frame)
            if fate == "doubled":
                await plain(stream, frame)
            if stream in self._kept:
                await plain(stream, self._kept.pop(stream))

        return write

    def _keep(self, stream, frame, plain):
        """Let the next frame overtake this one; where none does, it comes a little later."""
        self._kept[stream] = frame

        async def after_all():
            await asyncio.sleep(_LATE_S)
            async with stream._lock:
                if stream in self._kept:
                    with contextlib.suppress(ConnectionError):
                        await plain(stream, self._kept.pop(stream))

        task = asyncio.ensure_future(after_all())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
