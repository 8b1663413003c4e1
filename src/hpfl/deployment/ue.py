"""One UE: computes on every model its edge sends, sends the sketch at once and the update when it is asked to."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hpfl.arrays import FloatArray
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.checks import check_update
from hpfl.deployment.learner import Learner
from hpfl.deployment.logs import log
from hpfl.deployment.node import Background, SharedWork
from hpfl.deployment.pacing import send_vector, sleep_until
from hpfl.deployment.refusal import ATTEMPTS, RETRIED, Code, RefusedError
from hpfl.deployment.settings import UeNodeSettings
from hpfl.deployment.uplink import Uplink, stay_attached
from hpfl.deployment.wire import VERSION, Arrival, Tag, Vector, VectorSpec, digest_of, encode, numbers
from hpfl.learning import NonFiniteUpdateError


@dataclass(frozen=True)
class OwnUpdate:
    """An update and the model it was computed on."""

    tag: Tag
    update: Vector
    sketch: FloatArray


class Ue:
    """The process of one UE; `learner` may be replaced by anything with the same methods."""

    def __init__(self, settings: UeNodeSettings, experiment: SharedWork, learner: Learner) -> None:
        self._settings = settings
        self._experiment = experiment
        self._learner = learner
        self._background = Background()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=settings.name)
        self._held: OwnUpdate | None = None
        self._link: Uplink | None = None
        self._computes: Tag | None = None
        self._order: tuple[Tag, Any] | None = None
        self._attempts = 0
        self._done = False

    async def run(self) -> None:
        """Stay attached to the edge until the run is over."""
        try:
            await stay_attached(self._settings, self._settings.edge, self._settings.edge_name, self._session)
        finally:
            await self._background.stop()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def settle(self) -> None:
        """Wait until the update that is being sent has arrived."""
        if self._order is not None:
            order = self._order[1]
            bound_s = order.compute_s + order.upload_s + self._settings.timing.deadline_slack_s
            await self._background.finish("upload", bound_s)
        if self._link is not None:
            await self._link.close()

    async def fetch(self) -> Vector:
        """The global model, asked for as a visitor."""
        found: list[Vector] = []

        async def session(link: Uplink) -> bool:
            await link.send(self._hello(visitor=True))

            def handle(tag: Tag, content: Any) -> None:
                if isinstance(content, Arrival) and content.begin.purpose == pb.GLOBAL:
                    found.append(_sound(content))
                    link.end()

            await link.messages(lambda tag, begin: self._experiment.spec, handle)
            return bool(found)

        await stay_attached(self._settings, self._settings.edge, self._settings.edge_name, session)
        return found[0]

    async def _session(self, link: Uplink) -> bool:
        self._order = None
        await link.send(self._hello(visitor=False))
        try:
            await link.messages(self._expects, lambda tag, content: self._handle(link, tag, content))
        finally:
            self._background.cancel("upload")
        return self._done

    def _hello(self, *, visitor: bool) -> bytes:
        held = None if visitor else self._held
        hello = pb.Hello(
            version=VERSION,
            fingerprint=self._experiment.fingerprint,
            num_samples=self._learner.num_samples,
            holds=held is not None,
            sketch=None if held is None else self._sketch_of(held),
            visitor=visitor,
        )
        tag = Tag(node=self._settings.name) if held is None else held.tag
        return encode(tag, hello=hello)

    def _sketch_of(self, held: OwnUpdate) -> Any:
        samples = self._learner.num_samples
        return pb.Sketch(values=numbers(held.sketch), weight=self._experiment.weight(samples), num_samples=samples)

    def _expects(self, tag: Tag, begin: Any) -> VectorSpec:
        if begin.purpose not in {pb.TRAIN, pb.EVALUATE}:
            raise RefusedError("unexpected", f"a vector for purpose {begin.purpose} came")
        return self._experiment.spec

    def _handle(self, link: Uplink, tag: Tag, content: Any) -> None:
        if isinstance(content, Arrival):
            params = _sound(content)
            if content.begin.purpose == pb.TRAIN:
                self._start(link, tag, params)
            else:
                self._background.start("evaluate", self._evaluate(link, tag, params))
            return
        match content.WhichOneof("body"):
            case "order":
                self._ordered(link, tag, content.order)
            case "request":
                self._asked_again(link, tag)
            case "refusal":
                self._refused(link, content.refusal)
            case "stop":
                self._done = content.stop.completed
                link.end()
            case _:
                pass

    def _start(self, link: Uplink, tag: Tag, params: Vector) -> None:
        """Begin to compute on a model; an edge that asks again for what is being computed changes nothing."""
        if self._link is link and self._computes is not None and self._computes.about_same_model(tag):
            return
        known = self._held is not None and self._held.tag.about_same_model(tag)
        self._link, self._computes = link, None if known else tag
        self._background.start("train", self._train(link, tag, params))

    def _asked_again(self, link: Uplink, tag: Tag) -> None:
        """The edge misses a sketch: it was lost, or is still being computed, or the model has never come."""
        if self._held is not None and self._held.tag.about_same_model(tag):
            self._background.start("answer", link.send(encode(self._held.tag, sketch=self._sketch_of(self._held))))
        elif self._computes is None or not self._computes.about_same_model(tag):
            self._background.start("answer", self._decline(link, tag, "that model is not here"))

    async def _train(self, link: Uplink, tag: Tag, params: Vector) -> None:
        own = tag.by(self._settings.name)
        if self._held is None or not self._held.tag.about_same_model(own):
            self._held = None
            try:
                update, sketch = await self._computed(lambda: self._update(own, params))
            except RefusedError as error:
                await self._decline(link, tag, error.reason, code=error.code)
                return
            finally:
                if self._computes is tag:
                    self._computes = None
            self._held = OwnUpdate(own, update, sketch)
        await link.send(encode(self._held.tag, sketch=self._sketch_of(self._held)))

    def _update(self, tag: Tag, params: Vector) -> tuple[Vector, FloatArray]:
        """An update that no parent would refuse, and its sketch."""
        try:
            update = self._learner.update(params, base_round=tag.base_round, edge_round=tag.edge_round)
        except NonFiniteUpdateError as error:
            raise RefusedError("nonfinite", str(error)) from None
        check_update(update, self._experiment.bounds)
        return update, self._learner.sketch(update)

    async def _evaluate(self, link: Uplink, tag: Tag, params: Vector) -> None:
        figures = await self._computed(lambda: self._learner.evaluate(params))
        answer = pb.Figures(ue=[self._settings.number], values=numbers(figures))
        await link.send(encode(tag.by(self._settings.name), figures=answer))

    async def _computed(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _ordered(self, link: Uplink, tag: Tag, order: Any) -> None:
        """Begin to send; a second copy of an order, or one overtaken by a newer one, changes nothing."""
        if self._held is None or not self._held.tag.about_same_model(tag):
            self._background.start("decline", self._decline(link, tag, "an update was asked for that is not held"))
        elif not self._background.is_busy("upload") or self._order is None or tag.supersedes(self._order[0]):
            self._order, self._attempts = (tag, order), 1
            self._background.start("upload", self._upload(link, tag, order, self._held))

    async def _decline(self, link: Uplink, tag: Tag, reason: str, *, code: Code = "stale") -> None:
        log("declined", level=logging.WARNING, round=tag.round, code=code, reason=reason)
        await link.send(encode(tag.by(self._settings.name), refusal=pb.Refusal(code=code, reason=reason)))

    def _refused(self, link: Uplink, refusal: Any) -> None:
        log("update refused", level=logging.WARNING, code=refusal.code, reason=refusal.reason)
        if refusal.code in RETRIED and self._order and self._held and self._attempts < ATTEMPTS:
            self._attempts += 1
            self._background.start("upload", self._upload(link, *self._order, self._held))

    async def _upload(self, link: Uplink, tag: Tag, order: Any, held: OwnUpdate) -> None:
        began = asyncio.get_running_loop().time()
        if order.paced:
            await sleep_until(began + order.compute_s)
        samples = self._learner.num_samples
        own = tag.by(self._settings.name)

        async def work(send: Any) -> None:
            await send_vector(
                send,
                own,
                held.update,
                within_s=order.upload_s if order.paced else 0.0,
                purpose=pb.UPDATE,
                num_samples=samples,
                weight=self._experiment.weight(samples),
            )

        await link.send_through(work)


def _sound(arrival: Arrival) -> Vector:
    """The model that came, if it is the one its tag names."""
    vector = arrival.vector()
    if digest_of(vector) != arrival.tag.base:
        raise RefusedError("digest", "a model came whose bytes do not match its name")
    return vector
