"""The cloud's end of the streams: sends models and orders to edges, and tells what came back; decides nothing."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.checks import CheckedSketch, check_edge_sketch, check_speaker
from hpfl.deployment.deliveries import Delivered, Held, Model, NobodyError, StoppedError, delivered_of
from hpfl.deployment.evaluating import Evaluating
from hpfl.deployment.gathering import Collecting, asked_until, until
from hpfl.deployment.hub import Child, Hub
from hpfl.deployment.logs import log
from hpfl.deployment.metrics import Metrics
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import edge_roster, ue_roster
from hpfl.deployment.refusal import UNUSABLE, RefusedError
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.wire import Arrival, Tag, Vector, VectorSpec, encode
from hpfl.training.cloud_step import DivergedError

_AT_ONCE = 16


class Cloud:
    """The parent of all edges."""

    def __init__(self, settings: CloudNodeSettings, experiment: SharedWork, run: str) -> None:
        self.metrics = Metrics()
        self.run = run
        self.task = experiment.task
        self.held: dict[int, Held] = {}
        self.delivered: dict[int, Delivered] = {}
        self.stopping = asyncio.Event()
        self._settings = settings
        self._experiment = experiment
        self._roster = edge_roster(settings.edges, experiment.config)
        self._ues = [set(ue_roster([], experiment.config, k).values()) for k in self._roster.values()]
        self._model: Model | None = None
        self._valid: dict[int, Tag] = {}
        self._sent: dict[int, Child] = {}
        self._answered: set[Child] = set()
        self._failed: set[int] = set()
        self._changed = asyncio.Event()
        self._collecting: dict[int, Collecting] = {}
        self._evaluating: Evaluating | None = None
        self._gather_until_s = 0.0
        self.hub = Hub(
            self, self._roster, fingerprint=experiment.fingerprint, limits=settings.limits, metrics=self.metrics
        )

    async def start(self) -> int:
        """Listen for edges; the port."""
        self._gather_until_s = asyncio.get_running_loop().time() + self._settings.timing.gather_s
        return await self.hub.start(self._settings.listen, self._settings.tls)

    def publish(self, vector: Vector, *, round_number: int) -> Model:
        """Make a model the current one."""
        self.metrics.round.set(round_number)
        if self._model is None or self._model.tag.round != round_number:
            name = self._settings.name
            self._model = Model.of(vector, run=self.run, node=name, round_number=round_number, purpose=pb.TRAIN)
            self._sent.clear()
            self._failed.clear()
        return self._model

    def accept_only(self, valid: Mapping[int, Tag]) -> None:
        """Name the model (digest and round) that each edge's update may be computed on, beside the current one."""
        self._valid = dict(valid)

    async def observe(self) -> dict[int, Held]:
        """Wait until the edges that are there have an update that is valid; raises where the model allows of none."""
        self.held = {edge: held for edge, held in self.held.items() if self._is_valid(edge, held)}
        timing = self._settings.timing
        waited_s = 0.0
        while not await asked_until(self._all_ready, self._changed, timing.compute_s, self._ask_again):
            waited_s += timing.compute_s
            if self.held:
                break  # whoever is not ready by now is left out
            if waited_s >= timing.patience_s:
                nobody = NobodyError(f"no edge had an update for {waited_s:.0f} s")
                raise self._diverged() if self._failed else nobody
            self._sent.clear()  # an answer may have been lost: ask again
        if self.stopping.is_set():
            raise StoppedError
        held = {edge: held for edge, held in self.held.items() if edge in self.hub.children}
        if not held and self._all_failed():
            raise self._diverged()
        return held

    def _all_failed(self) -> bool:
        """Whether every edge said that nothing usable can be computed on the current model; one away may yet."""
        return self._failed.issuperset(self._roster.values())

    def _diverged(self) -> DivergedError:
        assert self._model is not None
        return DivergedError(
            f"the model after round {self._model.tag.round} has diverged: every UE's update on it is infinite, or "
            "larger than limits.update_norm of the UE, its edge or the cloud; try a smaller learning rate"
        )

    def _all_ready(self) -> bool:
        if self.stopping.is_set():
            return True
        self._send_missing_models()
        there = set(self.hub.children)
        ready = there & set(self.held)
        if not ready and not self._all_failed():
            return False
        early = asyncio.get_running_loop().time() < self._gather_until_s and len(there) < len(self._roster)
        return bool(there) and there == ready | (there & self._failed) and not early

    def _send_missing_models(self) -> None:
        """Give the current model to attached edges that hold nothing valid and have not been sent it."""
        assert self._model is not None
        missing = [
            child
            for edge, child in self.hub.children.items()
            if edge not in self.held and self._sent.get(edge) is not child
        ]
        if missing:
            self._hand_out(missing)

    def _hand_out(self, children: list[Child]) -> None:
        """Send the current model, unless there is a newer one before it is a child's turn."""
        assert self._model is not None
        model = self._model
        self._sent.update({child.number: child for child in children})
        self.hub.send_all(list(model.frames), children, at_once=_AT_ONCE, still=lambda: self._model is model)

    def _ask_again(self) -> None:
        """Ask edges that owe a sketch for it; one that has not got the model says so."""
        assert self._model is not None
        owing = [child for edge, child in self.hub.children.items() if edge not in self.held.keys() | self._failed]
        for child in owing:
            child.asked_again = True
        self.hub.send_all([encode(self._model.tag, request=pb.Request())], owing, at_once=_AT_ONCE)

    async def execute(self, orders: Mapping[int, tuple[Tag, Any]], deadline_s: float) -> dict[int, Delivered]:
        """Send every edge its order and wait for the updates until the deadline; in order of arrival."""
        self.delivered = {}
        collecting = {edge: Collecting(tag.by(self._settings.name), self._deliver) for edge, (tag, _) in orders.items()}
        self._collecting = collecting
        answers = []
        for edge, (tag, order) in orders.items():
            child = self.hub.children.get(edge)
            if child is not None:
                answers.append(collecting[edge].ask(edge))
                self.hub.spawn(child.send(encode(tag.by(self._settings.name), order=order)))
        if answers:
            await asyncio.wait(answers, timeout=deadline_s)
        for one in collecting.values():
            one.close()
        missing = sorted(set(orders) - set(self.delivered))
        if missing:
            log("went on without some edges", level=logging.WARNING, missing=missing)
        return self.delivered

    def is_waiting_for(self, edge: int) -> bool:
        """Whether an edge has been asked for its update and may still deliver it."""
        collecting = self._collecting.get(edge)
        return collecting is not None and not collecting.is_closed and edge not in self.delivered

    async def broadcast(self, edges: list[int]) -> None:
        """Send the current model to edges, whose updates are spent."""
        for edge in edges:
            self.held.pop(edge, None)
        self._hand_out([self.hub.children[edge] for edge in edges if edge in self.hub.children])

    async def evaluate(self, vector: Vector, *, round_number: int) -> dict[int, Any]:
        """Every UE's figures of a model, as far as they come in time."""
        model = Model.of(vector, run=self.run, node=self._settings.name, round_number=round_number, purpose=pb.EVALUATE)
        evaluating = Evaluating(model.tag)
        self._evaluating = evaluating
        asked = dict(self.hub.children)
        self.hub.send_all(list(model.frames), list(asked.values()), at_once=_AT_ONCE)

        def done() -> bool:
            left = {edge for edge, child in asked.items() if self.hub.children.get(edge) is child}
            return self.stopping.is_set() or left <= evaluating.heard

        await until(done, evaluating.changed, self._settings.timing.evaluate_s)
        self._evaluating = None
        return dict(evaluating.figures)

    async def stop(self, *, completed: bool) -> None:
        """Tell everybody that it is over (or, not completed, that this cloud will be back), and close."""
        if completed:
            message = pb.Stop(reason="the run is over", completed=True)
            frame = encode(Tag(run=self.run, node=self._settings.name), stop=message)
            await self.hub.say_farewell(frame, at_once=_AT_ONCE)
        await self.hub.stop()

    # what the hub calls

    def greet(self, child: Child, tag: Tag) -> Tag:
        """Note the update an edge may still hold; whether it counts is decided when the round observes."""
        hello = child.hello
        if hello.visitor:
            raise RefusedError("unexpected", "visitors ask an edge")
        held = None
        if hello.holds and tag.run == self.run:
            held = Held(tag, self._checked(child.number, hello.sketch))
        if held is not None and self._is_valid(child.number, held):
            self.held[child.number] = held
            return tag.by(self._settings.name)
        self.held.pop(child.number, None)
        return Tag(run=self.run, node=self._settings.name)

    async def attached(self, child: Child) -> None:
        """The round will see it."""
        self._changed.set()

    def detached(self, child: Child) -> None:
        """Nothing more will come on this stream."""
        collecting = self._collecting.get(child.number)
        if collecting is not None:
            collecting.give_up(child.number)
        self.held.pop(child.number, None)
        self._failed.discard(child.number)
        self._changed.set()
        if self._evaluating is not None:
            self._evaluating.changed.set()

    def expects(self, child: Child, tag: Tag, begin: Any) -> VectorSpec:
        """Updates that were asked for."""
        collecting = self._collecting.get(child.number)
        if begin.purpose != pb.UPDATE or collecting is None:
            raise RefusedError("unexpected", "a vector came that nobody asked for")
        collecting.check(tag, child.number)
        return self._experiment.spec

    def take_vector(self, child: Child, arrival: Arrival) -> None:
        """An edge's update."""
        self._collecting[child.number].take(child.number, arrival)

    def take_message(self, child: Child, tag: Tag, frame: Any) -> None:
        """An edge's sketch, its UEs' figures, a request for the model, or that it has no update."""
        match frame.WhichOneof("body"):
            case "sketch":
                self._take_sketch(child, tag, frame.sketch)
            case "figures" if self._evaluating is not None:
                self._evaluating.take(tag, child.number, frame.figures, allowed=self._ues[child.number])
            case "request":
                self._take_request(child)
            case "refusal":
                self._declined(child, tag, frame.refusal.code)
            case kind:
                raise RefusedError("unexpected", f"a {kind} came that nobody asked for")

    def _take_sketch(self, child: Child, tag: Tag, sketch: Any) -> None:
        check_speaker(tag, name=child.name, run=self.run)
        edge, held = child.number, Held(tag, self._checked(child.number, sketch))
        if edge in self.held and self.held[edge].tag.about_same_model(tag):
            raise RefusedError("repeated", f"a second sketch of edge {edge} came")
        if not self._is_valid(edge, held):
            raise RefusedError("stale", f"a sketch about the model of round {tag.base_round} came")
        self.held[edge] = held
        child.asked_again = False
        self._changed.set()

    def _checked(self, edge: int, sketch: Any) -> CheckedSketch:
        return check_edge_sketch(
            edge, sketch, width=self._experiment.sketch_width, bounds=self._experiment.bounds, own=self._ues[edge]
        )

    def _is_valid(self, edge: int, held: Held) -> bool:
        """Whether an update may be aggregated: computed on the model in the books, or on the current one."""
        current = self._model.tag if self._model is not None else None
        return any(tag is not None and held.tag.about_same_model(tag) for tag in (current, self._valid.get(edge)))

    def _deliver(self, edge: int, arrival: Arrival) -> None:
        held = self.held.get(edge)
        if held is None or not held.tag.about_same_model(arrival.tag):
            raise RefusedError("unexpected", f"edge {edge} delivers what it has announced no longer")
        bounds, weigh = self._experiment.bounds, self._experiment.weight
        seconds = self._collecting[edge].waited(edge)
        self.delivered[edge] = delivered_of(arrival, held, bounds=bounds, weigh=weigh, seconds=seconds)
        self.metrics.accepted.inc()

    def _take_request(self, child: Child) -> None:
        if self._model is None:
            raise RefusedError("unexpected", "there is no model yet")
        if child in self._answered:
            return  # what is on its way answers this one too
        sending = self.hub.send_all(list(self._model.global_frames), [child], at_once=1)
        if sending is not None:
            self._answered.add(child)
            sending.add_done_callback(lambda _: self._answered.discard(child))

    def _declined(self, child: Child, tag: Tag, code: str) -> None:
        """An edge has not got the model it is asked about, or no update for an order: it needs the current model.

        Or its UEs compute nothing usable on the current model, and is left out of the round.
        """
        if code in UNUSABLE and self._model is not None:
            if tag.about_same_model(self._model.tag):  # of an older model it is no longer asked
                self._failed.add(child.number)
                self._changed.set()
            return
        collecting = self._collecting.get(child.number)
        if collecting is not None and collecting.awaits(tag, child.number):
            collecting.give_up(child.number)
            self.held.pop(child.number, None)
        elif not (child.asked_again and self._model is not None and tag.about_same_model(self._model.tag)):
            raise RefusedError("unexpected", "what was declined had not been asked for")
        child.asked_again = False
        self._sent.pop(child.number, None)
        self._changed.set()
