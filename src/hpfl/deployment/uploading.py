"""How a child carries out an order: waits for its update, sends it at the planned pace, again where it was spoiled."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.logs import log
from hpfl.deployment.pacing import paced_frames
from hpfl.deployment.parent_link import ParentLink
from hpfl.deployment.refusal import ATTEMPTS, RETRIED
from hpfl.deployment.wire import Tag, Vector

_UPLOAD = "upload"


@dataclass(frozen=True)
class Upload:
    """What is sent upward: an update, and what its head says of it (`weight`, `num_samples`, whose it is).

    The seconds that sending was planned to take begin at `since_s` on the event loop's clock: what coding has taken of
    them is not waited for again.
    """

    update: Vector
    head: dict[str, Any]
    since_s: float | None = None


@dataclass
class _Order:
    """An order in hand, and the update it asks for once that is there."""

    tag: Tag
    asked: Any
    upload: Upload | None = None
    attempts: int = 1


class Uploads:
    """The newest order of one child; `made` waits for the update it asks for, `emptied` is told that there is none."""

    def __init__(
        self, link: ParentLink, made: Callable[[Tag, Any], Awaitable[Upload | None]], emptied: Callable[[], None]
    ) -> None:
        self._link = link
        self._made = made
        self._emptied = emptied
        self._order: _Order | None = None

    def ordered(self, tag: Tag, asked: Any) -> None:
        """Begin to carry out an order; a second copy, or one overtaken by a newer one, changes nothing."""
        busy = self._link.background.is_busy(_UPLOAD)
        if not busy or self._order is None or tag.supersedes(self._order.tag):
            self._order = _Order(tag, asked)
            self._link.background.start(_UPLOAD, self._carry_out(self._order))

    def refused(self, refusal: Any) -> None:
        """Send an update again whose transfer was spoiled; not for ever."""
        log(
            "refused by the parent",
            level=logging.WARNING,
            peer=self._link.parent,
            code=refusal.code,
            reason=refusal.reason,
        )
        order = self._order
        if refusal.code in RETRIED and order is not None and order.upload is not None and order.attempts < ATTEMPTS:
            order.attempts += 1
            self._link.background.start(_UPLOAD, self._send(order, replace(order.upload, since_s=None)))

    def cancel(self) -> None:
        """Nothing is sent any more."""
        self._order = None
        self._link.background.cancel(_UPLOAD)

    async def settle(self, slack_s: float, most_s: float) -> None:
        """Wait until what was ordered is sent, but not longer than it should take, nor than `most_s`."""
        if self._order is not None:
            asked = self._order.asked
            longest_s = max(asked.deadline_s, asked.compute_s + asked.upload_s + slack_s)
            await self._link.background.finish(_UPLOAD, min(longest_s, most_s))

    async def _carry_out(self, order: _Order) -> None:
        order.upload = await self._made(order.tag, order.asked)
        if order.upload is None:
            self._emptied()
            await self._link.decline(order.tag, "empty", "no UE delivered its update")
        else:
            await self._send(order, order.upload)

    async def _send(self, order: _Order, upload: Upload) -> None:
        stream = self._link.stream
        if stream is None:
            raise ConnectionError("the parent is gone; the update is kept")
        within_s, since_s = (order.asked.upload_s, upload.since_s) if order.asked.paced else (0.0, None)
        own = order.tag.by(self._link.name)
        await stream.send_timed(
            paced_frames(
                own,
                upload.update,
                within_s=within_s,
                since_s=since_s,
                silent_s=stream.idle_s,
                purpose=pb.UPDATE,
                **upload.head,
            )
        )
        log("update sent", round=own.round, base_round=own.base_round, ues=len(upload.head.get("ue", [own])))
