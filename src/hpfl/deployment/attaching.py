"""How a child reaches its parent, and comes back after every loss with growing pauses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.security import client_credentials, client_options
from hpfl.deployment.settings import NodeSettings
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import METHOD
from hpfl.rng import Streams

_FIRST_RETRY_S = 0.2
_MOST_DOUBLINGS = 30  # far beyond any pause; a parent may be away for days
_REFUSED_FOR_GOOD = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)
_LOSSES = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError, ConnectionError, TimeoutError, RefusedError)

Session = Callable[[TierStream], Awaitable[bool]]
"""What is done on one stream; answers whether all is done."""


class NotAdmittedError(Exception):
    """The parent has refused this node, and would again."""


async def stay_attached(settings: NodeSettings, address: str, parent: str, session: Session) -> None:
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


async def _one_session(settings: NodeSettings, address: str, parent: str, credentials: Any, session: Session) -> bool:
    options = client_options(settings.limits, server=parent)
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        call = channel.stream_stream(METHOD)()
        try:
            stream = TierStream(call, peer="the parent", idle_s=settings.limits.idle_s, cut=call.cancel)
            return await session(stream)
        except _LOSSES as error:
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
