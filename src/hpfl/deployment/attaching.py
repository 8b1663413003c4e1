"""How a child reaches its parent, and comes back after every loss with growing pauses."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc

from hpfl.deployment.diagnosis import handshake_fault
from hpfl.deployment.file_watch import LOOK_S
from hpfl.deployment.identity import OwnIdentity, seconds_left
from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.security import channel_credentials, client_options
from hpfl.deployment.settings import NodeSettings, TimingSettings
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import METHOD
from hpfl.rng import Streams

_FIRST_RETRY_S = 0.2
_RENEWED_S, _RENEWED_SHARE = 86_400.0, 0.1
"""How long before its certificate ends a node connects anew with the next: at most, and as a share of its life."""
_LOOKS_WITHIN, _LONGEST_LOOK_S = 0.02, 2.0
"""How often it looks for the next: so many shares of that time, and at least so often."""
_GROWTH = 1.6
_QUICK_S, _QUICK_RETRY_S = 60.0, 0.5
"""A parent that is started again is found soon: for the first minute pauses do not grow beyond this."""
_MOST_GROWTHS = 30  # far beyond any pause; a parent may be away for days
_SETTLED = 10
"""Times the last pause that a stream lasts before its end is no longer another of the same kind."""
_LAST_WORDS_S = 0.5
_TURNED_AWAY = (
    grpc.StatusCode.PERMISSION_DENIED,  # this node is refused
    grpc.StatusCode.UNIMPLEMENTED,  # that is no parent
    grpc.StatusCode.ALREADY_EXISTS,  # another process has attached under this node's name
)
_LOSSES = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, ConnectionError, TimeoutError, RefusedError)

AttachedSession = Callable[[TierStream], Awaitable[bool]]
"""What is done on one stream; answers whether all is done."""


async def stay_attached(settings: NodeSettings, address: str, parent: str, session: AttachedSession) -> None:
    """Open a stream and run `session` on it, again and again with growing pauses, until it answers that all is done.

    A parent that turns this node away may be mistaken, and another one may come: it is asked again, ever more slowly.
    """
    own = OwnIdentity(settings.tls)
    pauses = Pauses(settings.name, settings.timing)
    while True:
        own.has_changed()
        began = asyncio.get_running_loop().time()
        code = await _one_session(settings, address, parent, own, session)
        if code is grpc.StatusCode.OK:
            return
        pause_s = pauses.after(asyncio.get_running_loop().time() - began, turned_away=code in _TURNED_AWAY)
        if code in _TURNED_AWAY:
            log("turned away", level=logging.WARNING, parent=parent, status=code.name, next_attempt_s=round(pause_s, 1))
        await asyncio.sleep(pause_s)


class Pauses:
    """Seconds to wait after each attempt: they grow to `retry_s`, and to `refused_retry_s` for who is turned away."""

    def __init__(self, name: str, timing: TimingSettings) -> None:
        self._jitter = Streams(0).at(f"retry/{name}/{os.getpid()}").uniform(64)
        self._timing = timing
        self._attempts = self._refusals = 0
        self._pause_s = self._away_s = 0.0

    def after(self, lasted_s: float, *, turned_away: bool) -> float:
        """The pause after a stream that has lasted so long; one that lasted is not counted with those before."""
        if lasted_s > self._timing.retry_s:
            self._attempts, self._away_s = 0, 0.0
        if lasted_s > _SETTLED * max(self._pause_s, self._timing.retry_s):
            self._refusals = 0
        self._attempts += 1
        self._refusals += turned_away
        is_quick = self._away_s < _QUICK_S
        lost_s = min(self._timing.retry_s, _QUICK_RETRY_S) if is_quick else self._timing.retry_s
        count, most_s = (self._refusals, self._timing.refused_retry_s) if turned_away else (self._attempts, lost_s)
        grown_s = min(_FIRST_RETRY_S * _GROWTH ** min(count, _MOST_GROWTHS), most_s)
        self._pause_s = grown_s * (0.5 + float(self._jitter[count % 64]))
        self._away_s += self._pause_s
        return self._pause_s


async def _one_session(
    settings: NodeSettings, address: str, parent: str, own: OwnIdentity, session: AttachedSession
) -> grpc.StatusCode:
    """OK where all is done; else how the stream has ended."""
    options = client_options(settings.limits, server=parent)
    async with grpc.aio.secure_channel(address, channel_credentials(own.files), options=options) as channel:
        call = channel.stream_stream(METHOD)()
        try:
            stream = TierStream(call, peer="the parent", idle_s=settings.limits.idle_s, cut=call.cancel)
            renewing = asyncio.get_running_loop().create_task(_renewed(own, stream))
            if await session(stream):
                return grpc.StatusCode.OK
            return await _judged("the stream has ended", call, parent)
        except _LOSSES as error:
            code = await _judged(str(error) or type(error).__name__, call, parent)
            if code is grpc.StatusCode.UNAVAILABLE:
                await _diagnosed(settings, address, parent)
            return code
        finally:
            renewing.cancel()
            call.cancel()


async def _renewed(own: OwnIdentity, stream: TierStream) -> None:
    """Once there is another certificate, end a stream between two messages whose own is about to expire."""
    shown = own.certificate
    lifetime = shown.not_valid_after_utc - shown.not_valid_before_utc
    margin_s = min(_RENEWED_S, _RENEWED_SHARE * lifetime.total_seconds())
    look_s = min(max(_LOOKS_WITHIN * margin_s, LOOK_S), _LONGEST_LOOK_S)
    while True:
        own.announce()
        own.has_changed()
        due = own.certificate != shown and seconds_left(shown) < margin_s
        if due and not stream.is_sending:
            log("connecting anew with another certificate")
            stream.end()
            return
        await asyncio.sleep(look_s)


async def _diagnosed(settings: NodeSettings, address: str, parent: str) -> None:
    """Say whose certificate it is, if it is one, that keeps this node from its parent; gRPC does not."""
    fault = await asyncio.to_thread(handshake_fault, settings.tls, address, parent)
    if fault:
        log("certificate refused", level=logging.WARNING, parent=parent, reason=fault)


async def _judged(reason: str, call: Any, parent: str) -> grpc.StatusCode:
    """Note why a stream has ended: what the parent says of it or, where that is unknown, `reason`."""
    code, detail = grpc.StatusCode.OK, ""
    with suppress(TimeoutError):  # a stream that has not ended over there says nothing
        async with asyncio.timeout(_LAST_WORDS_S):
            code, detail = await call.code(), await call.details()
    log("lost the parent", parent=parent, reason=detail or reason)
    return grpc.StatusCode.UNKNOWN if code is grpc.StatusCode.OK else code
