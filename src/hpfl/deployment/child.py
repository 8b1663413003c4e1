"""The child's side of a tier, the same for an edge as for a UE: stays attached, takes models, orders and requests."""

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.attaching import stay_attached
from hpfl.deployment.checks import check_order
from hpfl.deployment.computing import Computing
from hpfl.deployment.logs import log
from hpfl.deployment.model_steps import ModelStep, StepReader
from hpfl.deployment.named_model import NamedModel, model_of, sound
from hpfl.deployment.node import SharedWork
from hpfl.deployment.parent_link import ParentLink
from hpfl.deployment.parent_proof import ParentProof
from hpfl.deployment.refusal import RULES, RefusedError
from hpfl.deployment.settings import EdgeNodeSettings, UeNodeSettings
from hpfl.deployment.stream import TierStream
from hpfl.deployment.uploading import Upload, Uploads
from hpfl.deployment.wire import Arrival, Tag, Vector, VectorSpec, digest_of, encode


class ChildWork(Protocol):
    """What is done for the parent: a UE computes, an edge lets its UEs compute.

    `purposes` are those of the models it takes; `orders_for` are the UEs that an order may name, none where it is for
    this child alone; `num_samples` is what it declares, 0 where its sketches say it.
    """

    purposes: Collection[int]
    orders_for: Collection[int]
    num_samples: int

    def attached(self) -> None:
        """A new stream is open."""
        ...

    def turned(self) -> None:
        """Another model has come; what was made for the one before is no longer wanted."""
        ...

    async def sketched(self, tag: Tag, vector: Vector) -> Any:
        """Compute on a model; the sketch of the update, which is kept. Refuses where it is not usable."""
        ...

    async def upload(self, tag: Tag, order: Any) -> Upload | None:
        """What an order asks for, when it is time to send it; None where there is nothing."""
        ...

    async def figures(self, tag: Tag, vector: Vector) -> Any:
        """How good a model is."""
        ...

    def stepped(self, steps: tuple[ModelStep, ...]) -> None:
        """The newest model came as steps from the one before."""
        ...

    def fetched(self, tag: Tag, vector: Vector) -> None:
        """The global model has come for whoever visits."""
        ...

    async def end(self, stop: Any) -> None:
        """The parent says farewell."""
        ...


class ChildSide:
    """One child of the parent at an address, whose certificate bears a name."""

    def __init__(
        self,
        settings: EdgeNodeSettings | UeNodeSettings,
        experiment: SharedWork,
        work: ChildWork,
        *,
        address: str,
        parent: str,
    ) -> None:
        self.link = ParentLink(settings.name, parent)
        self._proof = ParentProof(settings.tls, child=settings.name, parent=parent)
        self.computing = Computing(self.link, work.sketched)
        self.uploads = Uploads(self.link, work.upload, self.computing.forget)
        self._settings = settings
        self._experiment = experiment
        self._work = work
        self._reader = StepReader(experiment.updates)
        self._model: NamedModel | None = None
        self._address, self._parent = address, parent
        self._done = False
        self.took_step: Callable[[Tag, Any], None] | None = None  # of a secure sum

    async def run(self) -> None:
        """Stay attached to the parent until the run is over."""
        try:
            await stay_attached(self._settings, self._address, self._parent, self._session)
        finally:
            await self.link.background.stop()

    async def settle(self) -> None:
        """Wait until what the parent has asked for is sent, so that no update is lost."""
        timing = self._settings.timing
        await self.uploads.settle(timing.deadline_slack_s, timing.finish_s)
        if self.link.stream is not None:
            await self.link.stream.close()

    async def _session(self, stream: TierStream) -> bool:
        self.link.stream = stream
        self.link.background.start("parent", self._proof.watch(stream))
        try:
            await stream.send(self._hello())
            self._work.attached()
            await stream.listen(self._expects, self._handle, noted)
        finally:
            self.link.stream, self.link.is_welcome = None, False
            self.link.background.cancel("parent")
            self.uploads.cancel()
            self.computing.wait_no_more()
        return self._done

    def _hello(self) -> bytes:
        held = self.computing.held
        hello = self._experiment.shapes.hello(
            number=self._settings.number,
            num_samples=self._work.num_samples,
            holds=held is not None,
            sketch=None if held is None else held.sketch,
            challenge=self._proof.challenge(),
        )
        return encode(Tag(node=self._settings.name) if held is None else held.tag, hello=hello)

    def _expects(self, tag: Tag, begin: Any) -> VectorSpec:
        if begin.purpose not in self._work.purposes:
            raise RefusedError("unexpected", f"a vector for purpose {begin.purpose} came")
        return self._expected_steps(tag, begin) if begin.step else self._experiment.spec

    def _expected_steps(self, tag: Tag, begin: Any) -> VectorSpec:
        """Steps to a model, from the one that is here."""
        here = b"" if self._model is None else self._model.tag.base
        if begin.purpose != pb.TRAIN or here not in {begin.since, tag.base}:
            declining = self.link.decline(tag, "stale", "steps came from a model that is not here")
            self.link.background.start("answer", declining)
            raise RefusedError("stale", "steps came from a model that is not here")
        return self._reader.expected(tag, begin)

    def _handle(self, tag: Tag, content: Any) -> None:
        kind = "vector" if isinstance(content, Arrival) else content.WhichOneof("body")
        if self._proof.is_owed and kind != "welcome":
            raise RefusedError("unexpected", f"a {kind} came before the parent's proof of its certificate")
        match kind:
            case "vector":
                self._take_model(tag, content)
            case "welcome":
                self._proof.check(content.welcome.certificate, content.welcome.signature)
                self.link.is_welcome = True
            case "order":
                self._ordered(tag, content.order)
            case "secure" if self.took_step is not None:
                self.took_step(tag, content.secure)
            case "request":
                self.computing.answer(tag)
            case "refusal":
                self.link.count_refused(content.refusal.code if content.refusal.code in RULES else "unknown")
                self.uploads.refused(content.refusal)
            case "stop":
                self.link.background.start("stop", self._end(content.stop))
            case _:
                pass

    def _take_model(self, tag: Tag, arrival: Arrival) -> None:
        vector = self._stepped(tag, arrival) if arrival.begin.step else sound(arrival)
        if arrival.begin.purpose == pb.TRAIN and model_of(tag):
            self._model = NamedModel(tag, vector)
        match arrival.begin.purpose:
            case pb.TRAIN if self.computing.is_new(tag):
                self._work.turned()
                self.computing.start(tag, vector)
            case pb.TRAIN:
                self.computing.answer(tag)
            case pb.EVALUATE:
                self.link.background.start("evaluate", self._evaluate(tag, vector))
            case _:
                self._work.fetched(tag, vector)

    def _stepped(self, tag: Tag, arrival: Arrival) -> Vector:
        """The model that steps lead to, if it is the one their tag names; else it is asked for whole."""
        assert self._model is not None
        if self._model.tag.base == tag.base:
            return self._model.vector
        steps = self._reader.read(arrival)
        vector = self._reader.taken(self._model.vector, steps)
        if digest_of(vector) != tag.base:
            self.link.background.start("answer", self.link.decline(tag, "stale", "the steps lead to another model"))
            raise RefusedError("digest", "steps came that lead to another model than they name")
        self._work.stepped(steps)
        return vector

    def _ordered(self, tag: Tag, order: Any) -> None:
        check_order(order, self._work.orders_for)
        if self.computing.holds(tag):
            self.uploads.ordered(tag, order)
        elif not self.computing.is_new(tag):  # it was killed, and has not yet computed again what it had announced
            self.computing.when_done(lambda: self.uploads.ordered(tag, order))
        else:
            declining = self.link.decline(tag, "stale", "an update was asked for that is not held")
            self.link.background.start("decline", declining)

    async def _evaluate(self, tag: Tag, vector: Vector) -> None:
        await self.link.say(tag, figures=await self._work.figures(tag, vector))

    async def _end(self, stop: Any) -> None:
        await self._work.end(stop)
        self._done = bool(stop.completed)
        if self.link.stream is not None:
            self.link.stream.end()


async def noted(error: RefusedError) -> None:
    """What a parent sends and should not is dropped."""
    log("refused parent's message", level=logging.WARNING, peer="the parent", code=error.code, reason=error.reason)
