"""One UE: computes on every model its edge sends, sends the sketch at once and the update when it is asked to."""

import asyncio
import logging
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.child import ChildSide
from hpfl.deployment.coder import Coder
from hpfl.deployment.learner import Learner
from hpfl.deployment.logs import log
from hpfl.deployment.model_steps import ModelStep
from hpfl.deployment.node import SharedWork
from hpfl.deployment.own_store import OwnStore
from hpfl.deployment.own_thread import OwnThread
from hpfl.deployment.own_updates import OwnUpdate, OwnUpdates
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secret_draws import kept_key
from hpfl.deployment.secure_member import SecureMember, cell_of
from hpfl.deployment.settings import UeNodeSettings
from hpfl.deployment.stream import sleep_until
from hpfl.deployment.ue_metrics import UeMetrics
from hpfl.deployment.ue_privacy import UePrivacy
from hpfl.deployment.uploading import Upload
from hpfl.deployment.wire import Tag, Vector, numbers
from hpfl.learning.coding import BY_UE


class Ue:
    """The process of one UE; `learner` may be replaced by anything with the same methods."""

    purposes: Collection[int] = frozenset({pb.TRAIN, pb.EVALUATE})
    orders_for: Collection[int] = frozenset()

    def __init__(self, settings: UeNodeSettings, experiment: SharedWork, learner: Learner) -> None:
        self.num_samples = learner.num_samples
        self.up = ChildSide(settings, experiment, self, address=settings.edge, parent=settings.edge_name)
        self.metrics = UeMetrics(lambda: self.up.link.is_welcome)
        self.up.link.count_refused = lambda code: self.metrics.refused.labels(code).inc()
        self._settings = settings
        self._experiment = experiment
        never_trains = settings.number in experiment.newcomers
        if never_trains:
            self.purposes = frozenset({pb.EVALUATE})
        self._updates = OwnUpdates(
            learner,
            experiment,
            settings.number,
            OwnStore(Path(settings.state), experiment.sending.numbers_kept),
            Coder.of(experiment, BY_UE, settings.number, settings.state),
            _privacy(settings, experiment),
            never_trains=never_trains,
        )
        self._thread = OwnThread(settings.name)
        self._own: OwnUpdate | None = None
        self._secure: SecureMember | None = None
        if experiment.config.secure.on and not never_trains:
            self._secure = SecureMember(settings, experiment, self.up.link, self.num_samples)
            self.up.took_step = self._secure.take

    async def run(self) -> None:
        """Stay attached to the edge until the run is over."""
        try:
            await self.up.run()
        finally:
            self._thread.end()

    async def settle(self) -> None:
        """Wait until the update that is being sent has arrived."""
        await self.up.settle()

    # what the child's side asks for

    def attached(self) -> None:
        """A secure sum that was begun on the stream before is over."""
        if self._secure is not None:
            self._secure.detached()

    def turned(self) -> None:
        """An update that is being sent is sent to its end."""

    async def sketched(self, tag: Tag, vector: Vector) -> Any:
        """Compute on a model and keep the update; its sketch."""
        began = time.perf_counter()
        own = await self._thread.run(lambda: self._made(tag, vector))  # what a newer model overtakes ends here
        took_s = time.perf_counter() - began
        self.metrics.computed.inc()
        self.metrics.seconds.observe(took_s)
        if own.kept is not None:
            await self._thread.run(lambda: self._updates.keep(tag, own.kept))
        self._own, secure = own, self._secure
        if secure is not None:
            secure.holds(tag, own)
        return pb.Sketch(
            values=numbers(own.sketch) if secure is None else b"",
            weight=self._experiment.weight(self.num_samples),
            num_samples=self.num_samples,
            took_s=took_s,
            noise=numbers(own.noise) if secure is None else b"",
            anew=[self._settings.number] if own.anew else [],
        )

    def _made(self, tag: Tag, vector: Vector) -> OwnUpdate:
        own = self._updates.made(tag, vector)
        return own if self._secure is None else self._updates.within(own, self._secure.format.fitted)

    async def upload(self, tag: Tag, order: Any) -> Upload | None:
        """The update that is held, coded as the order says, when the time of computing is over."""
        own, ordered_s = self._own, asyncio.get_running_loop().time()
        if own is None:
            return None
        try:
            message = await self._message(tag, own, order)
        except RefusedError as error:
            self.metrics.refused.labels(error.code).inc()
            log("not sent", level=logging.WARNING, round=tag.round, code=error.code, reason=error.reason)
            return None
        if message is None:
            return None
        sends_s = ordered_s + order.compute_s
        if order.paced:
            await sleep_until(sends_s)
        weight = self._experiment.weight(self.num_samples)
        self.metrics.sent.inc()
        return Upload(message, {"num_samples": self.num_samples, "weight": weight}, sends_s)

    async def _message(self, tag: Tag, own: OwnUpdate, order: Any) -> Vector | None:
        """The update as it is sent; None where it is for a secure sum that this UE has no part in."""
        if self._secure is not None:
            return await self._secure.masked_update(tag)
        codes = self._experiment.updates.codes(order.coding)
        return await self._thread.run(lambda: self._updates.coded(tag, own, order)) if codes else own.packed

    async def figures(self, tag: Tag, vector: Vector) -> Any:
        """This UE's figures of a model."""
        found = await self._thread.run(lambda: self._updates.figures(tag, vector))
        return pb.Figures(ue=[self._settings.number], values=numbers(found))

    def stepped(self, steps: tuple[ModelStep, ...]) -> None:
        """Nobody is below."""

    def fetched(self, tag: Tag, vector: Vector) -> None:
        """Only a visitor fetches the global model."""

    async def end(self, stop: Any) -> None:
        """Nobody is below."""


def _privacy(settings: UeNodeSettings, work: SharedWork) -> UePrivacy | None:
    """What a UE does for its privacy; None: nothing."""
    if work.private is None:
        return None
    cell = cell_of(work.config, settings.number)
    return UePrivacy(work.private, work.secure, settings.number, cell, cache(lambda: kept_key(Path(settings.state))))
