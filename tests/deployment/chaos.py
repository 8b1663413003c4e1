"""Streams with bad manners: frames that are lost, come twice, or come late, by tier, direction and kind."""

import asyncio
import contextlib

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.hub import Child
from hpfl.deployment.uplink import Uplink
from hpfl.deployment.wire import decode

_LATE_S = 0.05


def kind_of(frame):
    """What a frame is: `order`, `sketch`, ..., and for vectors what they are for."""
    content = decode(frame)[1]
    kind = content.WhichOneof("body")
    return pb.Purpose.Name(content.begin.purpose).lower() if kind == "begin" else kind


class Chaos:
    """Lets `fate(direction, kind)` decide on every frame while it is entered: None, lost, doubled or late."""

    def __init__(self, monkeypatch, fate):
        self._monkeypatch, self._fate = monkeypatch, fate
        self._plain = {"up": Uplink._write, "down": Child._send_one}
        self._kept, self._tasks = {}, set()
        self.seen = []

    def __enter__(self):
        chaotic_up, chaotic_down = self._chaotic("up"), self._chaotic("down")
        self._monkeypatch.setattr(Uplink, "_write", chaotic_up)
        self._monkeypatch.setattr(Child, "_send_one", chaotic_down)
        return self

    def __exit__(self, *exit_info):
        self._monkeypatch.setattr(Uplink, "_write", self._plain["up"])
        self._monkeypatch.setattr(Child, "_send_one", self._plain["down"])

    def _chaotic(self, direction):
        plain = self._plain[direction]

        async def write(stream, frame):
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
            lock = stream._lock if isinstance(stream, Uplink) else stream.lock
            async with lock:
                if stream in self._kept:
                    with contextlib.suppress(ConnectionError):
                        await plain(stream, self._kept.pop(stream))

        task = asyncio.ensure_future(after_all())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
