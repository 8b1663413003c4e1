"""What a child says to its parent, where the parent is there to hear it, and the work it does meanwhile."""

import logging
from collections.abc import Callable
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.logs import log
from hpfl.deployment.node import Background
from hpfl.deployment.refusal import Code
from hpfl.deployment.stream import TierStream
from hpfl.deployment.wire import Tag, encode


class ParentLink:
    """The stream to the parent, as long as there is one; what is lost is said again in the next greeting."""

    def __init__(self, name: str, parent: str) -> None:
        self.name, self.parent = name, parent
        self.stream: TierStream | None = None
        self.is_welcome = False
        self.count_refused: Callable[[str], object] = lambda code: None
        self.background = Background()

    async def say(self, tag: Tag, **body: Any) -> None:
        """Send a message in this child's name: `say(tag, sketch=...)`."""
        if self.stream is not None:
            await self.stream.send(encode(tag.by(self.name), **body))

    async def decline(self, tag: Tag, code: Code, reason: str) -> None:
        """Say why there is no answer to what was asked."""
        self.count_refused(code)
        log("declined", level=logging.WARNING, peer=self.parent, round=tag.round, code=code, reason=reason)
        await self.say(tag, refusal=pb.Refusal(code=code, reason=reason))
