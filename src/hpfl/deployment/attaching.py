"""How a child reaches its parent, and comes back after every loss with growing pauses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from hpfl.deployment.diagnosis import handshake_fault
from hpfl.deployment.file_watch import LOOK_S
from hpfl.deployment.identity import OwnIdentity, seconds_left
from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.security import channel_credentials, client_options
from hpfl.deployment.settings import NodeSettings
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import METHOD
from hpfl.rng import Streams

_FIRST_RETRY_S = 0.2
_RENEWED_S, _RENEWED_SHARE = 86_400.0, 0.1
"""How long before its certificate ends a node connects anew with the next: at most, and as a share of its life."""
_MOST_DOUBLINGS = 30  # far beyond any pause; a parent may be away for days
_REFUSED_FOR_GOOD = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)
_LOSSES = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, ConnectionError, TimeoutError, RefusedError)

Session = Callable[[TierStream], Awaitable[bool]]
"""What is done on one stream; answers whether all is done."""


class NotAdmittedError(Exception):
    """The parent has refused this node, and would again."""


async def stay_attached(settings: NodeSettings, address: str, parent: str, session: Session) -> None:
    """Open a stream and run `session` on it, again and again with growing pauses, until it answers that all is done."""
    own = OwnIdentity(settings.tls)
    jitter = Streams(0).at(f"retry/{settings.name}").uniform(64)
    attempt = 0
    while True:
        own.has_changed()
        began = asyncio.get_running_loop().time()
        if await _one_session(settings, address, parent, own, session):
            return
        lasted = asyncio.get_running_loop().time() - began
        attempt = 0 if lasted > settings.timing.retry_s else attempt + 1
        pause = min(_FIRST_RETRY_S * 1.6 ** min(attempt, _MOST_DOUBLINGS), settings.timing.retry_s)
        await asyncio.sleep(pause * (0.5 + float(jitter[attempt % 64])))


async def _one_session(settings: NodeSettings, address: str, parent: str, own: OwnIdentity, session: Session) -> bool:
    options = client_options(settings.limits, server=parent)
    async with grpc.aio.secure_channel(address, channel_credentials(own.files), options=options) as channel:
        call = channel.stream_stream(METHOD)()
        try:
            stream = TierStream(call, peer="the parent", idle_s=settings.limits.idle_s, cut=call.cancel)
            renewing = asyncio.get_running_loop().create_task(_renewed(own, stream))
            return await session(stream)
        except _LOSSES as error:
            await _judge(error, call, (settings, address, parent))
            return False
        finally:
            renewing.cancel()
            call.cancel()


async def _renewed(own: OwnIdentity, stream: TierStream) -> None:
    """Once there is another certificate, end a stream between two messages whose own is about to expire."""
    shown = own.certificate
    lifetime = shown.not_valid_after_utc - shown.not_valid_before_utc
    margin_s = min(_RENEWED_S, _RENEWED_SHARE * lifetime.total_seconds())
    while True:
        own.announce()
        own.has_changed()
        due = own.certificate != shown and seconds_left(shown) < margin_s
        if due and not stream.is_sending:
            log("connecting anew with another certificate")
            stream.end()
            return
        await asyncio.sleep(LOOK_S)


async def _judge(error: Exception, call: Any, place: tuple[NodeSettings, str, str]) -> None:
    """Note why a stream ended; whoever is not admitted need not come back."""
    settings, address, parent = place
    code = await call.code() if call.done() else None
    detail = (await call.details() if call.done() else None) or str(error) or type(error).__name__
    if code == grpc.StatusCode.UNAVAILABLE:
        detail = await asyncio.to_thread(handshake_fault, settings.tls, address, parent) or detail
    log("lost the parent", parent=parent, reason=detail)
    if code in _REFUSED_FOR_GOOD:
        raise NotAdmittedError(f"{parent} does not admit this node: {detail}")
