"""One edge: client of the cloud, parent of its UEs; what it holds can be sent again but never changed."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.flock import Flock
from hpfl.deployment.gathering import Gathering
from hpfl.deployment.logs import log
from hpfl.deployment.node import Background, SharedWork
from hpfl.deployment.pacing import send_vector
from hpfl.deployment.refusal import ATTEMPTS, RETRIED, RefusedError
from hpfl.deployment.settings import EdgeNodeSettings
from hpfl.deployment.uplink import Uplink, stay_attached
from hpfl.deployment.wire import VERSION, Arrival, Tag, Vector, VectorSpec, digest_of, encode, numbers

_ANSWER = "answer"


@dataclass(frozen=True)
class Base:
    """The model an edge works on, and the sketches of its UEs' updates."""

    tag: Tag
    vector: Vector
    gathering: Gathering
    sketch: Any


@dataclass(frozen=True)
class Finished:
    """An edge's update on its base: the mean over the UEs that delivered, and the seconds each took."""

    tag: Tag
    update: Vector
    num_samples: int
    seconds: dict[int, float]


class Edge:
    """The process of one edge."""

    def __init__(self, settings: EdgeNodeSettings, experiment: SharedWork) -> None:
        self.flock = Flock(settings, experiment)
        self._settings = settings
        self._experiment = experiment
        self._background = Background()
        self._link: Uplink | None = None
        self._base: Base | None = None
        self._gathers: Tag | None = None
        self._finished: Finished | None = None
        self._order: tuple[Tag, Any] | None = None
        self._attempts = 0
        self._done = False

    async def start(self) -> int:
        """Listen for UEs; the port."""
        return await self.flock.start(self._settings)

    async def run(self) -> None:
        """Stay attached to the cloud until the run is over."""
        try:
            await stay_attached(self._settings, self._settings.cloud, self._settings.cloud_name, self._session)
        finally:
            await self._background.stop()
            await self.flock.hub.stop()

    async def settle(self) -> None:
        """Wait until what the cloud has asked for is sent, so that no update a UE has delivered is lost."""
        if self._order is not None:
            await self._background.finish("upload", self._order[1].deadline_s)
        if self._link is not None:
            await self._link.close()

    async def _session(self, link: Uplink) -> bool:
        self._link, self._order = link, None
        await link.send(self._hello())
        self._background.start("visits", self._pass_on_visits(link))
        try:
            await link.messages(self._expects, self._handle)
        finally:
            self._link = None
            self._background.cancel("upload")
        return self._done

    def _hello(self) -> bytes:
        base = self._base
        hello = pb.Hello(
            version=VERSION,
            fingerprint=self._experiment.fingerprint,
            holds=base is not None,
            sketch=None if base is None else base.sketch,
        )
        return encode(Tag(node=self._settings.name) if base is None else base.tag, hello=hello)

    def _expects(self, tag: Tag, begin: Any) -> VectorSpec:
        if begin.purpose not in {pb.TRAIN, pb.EVALUATE, pb.GLOBAL}:
            raise RefusedError("unexpected", f"a vector for purpose {begin.purpose} came")
        return self._experiment.spec

    def _handle(self, tag: Tag, content: Any) -> None:
        if isinstance(content, Arrival):
            self._take_model(tag, content)
            return
        match content.WhichOneof("body"):
            case "order":
                self._ordered(tag, content.order)
            case "request":
                self._asked_again(tag)
            case "stop":
                self._background.start("stop", self._end(content.stop))
            case "refusal":
                self._refused(content.refusal)
            case _:
                pass

    def _take_model(self, tag: Tag, arrival: Arrival) -> None:
        vector = arrival.vector()
        if digest_of(vector) != tag.base:
            raise RefusedError("digest", "a model came whose bytes do not match its name")
        if arrival.begin.purpose == pb.TRAIN:
            self._start(tag, vector)
        elif arrival.begin.purpose == pb.EVALUATE:
            self._background.start("evaluate", self._evaluate(tag, vector))
        else:
            self.flock.answer_visitors(tag, vector)

    def _start(self, tag: Tag, vector: Vector) -> None:
        """Begin to work on a model; the cloud asking again for what is under way changes nothing."""
        if self._base is not None and self._base.tag.about_same_model(tag):
            self._background.start(_ANSWER, self._send(encode(self._base.tag, sketch=self._base.sketch)))
        elif self._gathers is None or not self._gathers.about_same_model(tag):
            self._background.cancel("upload")
            self._base = self._finished = None
            self._gathers = tag
            self._background.start("gather", self._gather(tag, vector))

    def _asked_again(self, tag: Tag) -> None:
        """The cloud misses a sketch: it was lost, or is still being gathered, or the model has never come."""
        if self._base is not None and self._base.tag.about_same_model(tag):
            self._background.start(_ANSWER, self._send(encode(self._base.tag, sketch=self._base.sketch)))
        elif self._gathers is None or not self._gathers.about_same_model(tag):
            self._background.start(_ANSWER, self._decline(tag, "stale", "that model is not here"))

    def _ordered(self, tag: Tag, order: Any) -> None:
        """Begin to carry out an order; a second copy, or one overtaken by a newer one, changes nothing."""
        base = self._base
        if base is None or not base.tag.about_same_model(tag):
            self._background.start("decline", self._decline(tag, "stale", "an update was asked for that is not held"))
        elif not self._background.is_busy("upload") or self._order is None or tag.supersedes(self._order[0]):
            self._order, self._attempts = (tag, order), 1
            self._background.start("upload", self._carry_out(base, tag, order))

    async def _gather(self, tag: Tag, vector: Vector) -> None:
        """Let the UEs compute on a new model; send the mean of their sketches up."""
        try:
            gathering = await self.flock.sketched(tag, vector)
        finally:
            if self._gathers is tag:
                self._gathers = None
        ues = sorted(gathering.sketches)
        if not ues:
            await self._decline(tag, "nonfinite", "no UE computes a usable update on that model")
            return
        values, weight = gathering.mean(ues)
        samples = [gathering.sketches[ue].num_samples for ue in ues]
        sketch = pb.Sketch(values=numbers(values), weight=weight, num_samples=sum(samples), ue=ues, samples=samples)
        self._base = Base(tag.by(self._settings.name), vector, gathering, sketch)
        await self._send(encode(self._base.tag, sketch=sketch))

    async def _carry_out(self, base: Base, tag: Tag, order: Any) -> None:
        """Collect what the plan asks for, average, and send the mean up at the planned pace."""
        if self._finished is None:
            self._finished = await self._finish(base, tag, order)
        if self._finished is None:
            self._base = None
            await self._decline(tag, "empty", "no UE delivered its update")
            return
        await self._upload(self._finished, tag, order)

    async def _finish(self, base: Base, tag: Tag, order: Any) -> Finished | None:
        """All edge rounds on one base (paper, section 3.2); None where nobody delivered."""
        settings = self._experiment.edge_settings
        rounds = settings.edge_rounds
        seconds = zip(order.ue, order.ue_compute_s, order.ue_upload_s, strict=True)
        plan = {ue: (c / rounds, u / rounds) for ue, c, u in seconds if ue in base.gathering.sketches}
        announced = {ue: sketch.num_samples for ue, sketch in base.gathering.sketches.items()}
        total = np.zeros(self._experiment.spec.length)
        took: dict[int, float] = {}
        for edge_round in range(rounds):
            inner = replace(tag, edge_round=edge_round)
            if edge_round:
                start = (base.vector - settings.outer_lr * total).astype(base.vector.dtype)
                inner = replace(inner, base=digest_of(start))
                gathering = await self.flock.sketched(inner, start, set(plan))
                plan = {ue: plan[ue] for ue in plan if ue in gathering.sketches}
            mean, took = await self.flock.collected(
                inner, plan, announced, paced=order.paced, within_s=order.phase_deadline_s / rounds
            )
            if not took:
                return None
            total += mean.value()
            plan = {ue: plan[ue] for ue in took}
        samples = sum(announced[ue] for ue in took)
        return Finished(tag, total.astype(base.vector.dtype), samples, took)

    async def _upload(self, finished: Finished, tag: Tag, order: Any) -> None:
        link = self._link
        if link is None:
            raise ConnectionError("the cloud is gone; the update is kept")
        ues = sorted(finished.seconds)

        async def work(send: Any) -> None:
            await send_vector(
                send,
                tag.by(self._settings.name),
                finished.update,
                within_s=order.upload_s if order.paced else 0.0,
                purpose=pb.UPDATE,
                weight=self._experiment.weight(finished.num_samples),
                num_samples=finished.num_samples,
                ue=ues,
                took_s=[finished.seconds[ue] for ue in ues],
            )

        await link.send_through(work)
        log("update sent", round=tag.round, base_round=tag.base_round, ues=len(ues))

    async def _evaluate(self, tag: Tag, vector: Vector) -> None:
        found = await self.flock.evaluated(tag, vector)
        ues = sorted(found.figures)
        values = numbers(np.array([found.figures[ue] for ue in ues]))
        await self._send(encode(tag.by(self._settings.name), figures=pb.Figures(ue=ues, values=values)))

    async def _decline(self, tag: Tag, code: str, reason: str) -> None:
        log("declined", level=logging.WARNING, round=tag.round, code=code)
        await self._send(encode(tag.by(self._settings.name), refusal=pb.Refusal(code=code, reason=reason)))

    def _refused(self, refusal: Any) -> None:
        log("refused by the cloud", level=logging.WARNING, code=refusal.code, reason=refusal.reason)
        if refusal.code in RETRIED and self._order and self._finished and self._attempts < ATTEMPTS:
            tag, order = self._order
            self._attempts += 1
            self._background.start("upload", self._upload(self._finished, tag, order))

    async def _pass_on_visits(self, link: Uplink) -> None:
        """Ask the cloud for the global model whenever somebody has asked for it here."""
        request = encode(Tag(run=self.flock.run, node=self._settings.name), request=pb.Request())
        while True:
            if not self.flock.visitors:
                await self.flock.visited.wait()
            self.flock.visited.clear()
            await link.send(request)
            with suppress(TimeoutError):  # the answer may be lost: ask again while somebody waits
                async with asyncio.timeout(self._settings.timing.retry_s):
                    await self.flock.visited.wait()

    async def _end(self, message: Any) -> None:
        await self.flock.stop(message)
        self._done = bool(message.completed)
        if self._link is not None:
            self._link.end()

    async def _send(self, frame: bytes) -> None:
        if self._link is not None:
            await self._link.send(frame)
