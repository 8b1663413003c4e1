"""The parent's side of a tier, the same at the cloud and at an edge: models down, sketches, updates and figures up."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.believing import believed, struck
from hpfl.deployment.checks import check_speaker
from hpfl.deployment.collecting import Collecting
from hpfl.deployment.debts import check_due, note_debts
from hpfl.deployment.deliveries import Held
from hpfl.deployment.evaluating import Evaluating
from hpfl.deployment.figures_call import FiguresCall
from hpfl.deployment.gathering import Gathering
from hpfl.deployment.hub import Child, Hub
from hpfl.deployment.kept_attendance import kept_attendance
from hpfl.deployment.learnt_seconds import LearntSeconds
from hpfl.deployment.logs import log
from hpfl.deployment.loss_bound import LossBound
from hpfl.deployment.model_steps import ModelStep, StepLog, step_frames
from hpfl.deployment.named_model import NamedModel, model_of
from hpfl.deployment.node import SharedWork
from hpfl.deployment.opening import Opening
from hpfl.deployment.parent_ways import ParentWays
from hpfl.deployment.peer_text import plain
from hpfl.deployment.refusal import UNUSABLE, RefusedError
from hpfl.deployment.roll_call import RollCall
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings
from hpfl.deployment.waiting import until
from hpfl.deployment.wire import Arrival, Tag, VectorSpec, encode


class ParentSide:
    """One parent and its children: what it has sent, what they hold, what it waits for."""

    def __init__(
        self,
        settings: CloudNodeSettings | EdgeNodeSettings,
        experiment: SharedWork,
        roster: Mapping[str, int],
        ways: ParentWays,
        *,
        at_once: int,
        share: float = 1.0,
    ) -> None:
        self.name, self.run, self.is_over = settings.name, "", False
        self.at_once, self.roster, self.metrics = at_once, roster, Metrics()
        self.attendance = kept_attendance(settings.timing, roster, self.metrics, share=share)
        self.sketches = RollCall(self.attendance, "sketch", limit_s=share * settings.timing.compute_s)
        self.model: NamedModel | None = None
        self.steps = StepLog(experiment.spec)
        self.sent: dict[int, Child] = {}
        self.took_step: Callable[[Child, Tag, Any], None] | None = None  # of a secure sum
        self.gathering, self.learnt = Gathering(), LearntSeconds()
        self._accept = partial(ways.accept, self)
        self.collecting = Collecting({}, self._accept, RollCall(self.attendance, "update", limit_s=0.0))
        self.evaluating: Evaluating | None = None
        self._settings, self._ways = settings, ways
        self.on_models: Callable[[Collection[int], bytes], object] = _unheard
        self.on_sketch: Callable[[int, Tag, Any], object] = _unheard
        self.opening = Opening(
            self.attendance,
            settings.timing,
            there=lambda: len(self.hub.there.everybody) - len(self.hub.children.keys() & self.gathering.vacant),
            expected=lambda: len(self.roster),
            resumed=lambda: self.model is not None and self.model.tag.round > 0,
        )
        self._columns, self._ranges = experiment.columns, experiment.ranges
        self._losses = LossBound(self._columns, self._ranges, settings.limits.loss_ratio, self.metrics.refused)
        self.newcomers = frozenset[int]() if ways.are_parents else experiment.newcomers
        self.hub = Hub(
            self,
            roster,
            shapes=experiment.shapes,
            limits=settings.limits,
            metrics=self.metrics,
            newcomers=self.newcomers,
        )

    async def start(self) -> int:
        """Listen for children; the port."""
        self.opening.start()
        return await self.hub.start(self._settings.listen, self._settings.tls)

    def hand_out(self, children: list[Child]) -> None:
        """Send the current model, unless there is a newer one before it is a child's turn; or the steps to it.

        A child that has not got the model that steps begin with says so, and is sent the model.
        """
        model, children = self.model, [child for child in children if self.sketches.calls(child.number)]
        if model is None:
            return
        self.sent.update({child.number: child for child in children})
        self.on_models([child.number for child in children], model.tag.base)
        behind: dict[tuple[ModelStep, ...], list[Child]] = {}
        for child in children:
            steps = self.steps.between(child.model, model.tag.base) if child.model else ()
            child.asked_again, child.may_repeat = child.asked_again or bool(steps), 0
            child.handed_s = asyncio.get_running_loop().time()
            behind.setdefault(steps, []).append(child)
        for steps, some in behind.items():
            frames = step_frames(model.tag, steps) if steps else model.frames(pb.TRAIN)
            self.hub.send_all(frames, some, at_once=self.at_once, still=lambda: self.model is model)

    def waited_for(self) -> Set[int]:
        """The children that are there and not left out, as of now."""
        there, out = self.hub.children.keys(), self.attendance.left_out()
        return there - out if out else there

    def ask_again(self, children: list[Child]) -> None:
        """Ask those who owe a sketch for it; a child that has not got the model says so."""
        assert self.gathering.tag is not None
        for child in children:
            child.asked_again, child.may_repeat = True, child.may_repeat + 1
        frame = encode(self.gathering.tag.by(self.name), request=pb.Request())
        self.hub.send_all([frame], children, at_once=self.at_once)

    async def collect(
        self,
        orders: Mapping[int, Any],
        tags: Mapping[int, Tag],
        *,
        at_once: int,
        within_s: float,
        planned_s: Mapping[int, float],
    ) -> dict[int, float]:
        """Send orders, so many at once, and wait for the updates; the seconds each took, who is late is left out.

        `tags` name what an update must be about, also those of children that are not asked this time. `planned_s` is
        how long children were ordered to take.
        """
        rule = {"limit_s": within_s, "factor": self._settings.timing.deadline_factor}
        roll = RollCall(self.attendance, "update", planned_s=planned_s, **rule)
        collecting = self.collecting = Collecting(tags, self._accept, roll)
        turn = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with turn:
                child = self.hub.children.get(number)
                if child is not None:
                    answer = collecting.ask(number)
                    await child.stream.send(encode(tags[number], order=orders[number]))
                    await asyncio.wait({answer}, timeout=roll.waits_s(number))
            if child is not None:
                await answer

        await collecting.run({number: one(number) for number in orders}, within_s)
        missing = sorted(orders.keys() - collecting.seconds.keys())[:20]
        if missing:
            some, number = f"some {self._ways.children_are}", tags[missing[0]].round
            log(f"went on without {some}", level=logging.WARNING, peer=some, round=number, missing=missing)
        return collecting.seconds

    async def evaluate(
        self, model: NamedModel, *, within_s: float, is_over: Callable[[], bool] = lambda: False
    ) -> dict[int, Any]:
        """Every UE's figures of a model, as far as they come in time and those who were asked stay."""
        call = FiguresCall(self.attendance, self.hub.there.everybody, limit_s=within_s)
        evaluating = self.evaluating = Evaluating(model.tag, self._columns, self._ranges, call.heard)
        self.hub.send_all(model.frames(pb.EVALUATE), list(call.asked.values()), at_once=self.at_once)

        def done() -> bool:
            return is_over() or call.is_over(evaluating.heard, self.hub.there.everybody)

        await until(done, evaluating.changed, within_s)
        if not is_over():
            call.close(evaluating.heard, self.hub.there.everybody)
        return self._losses.believed(evaluating.figures)

    async def farewell(self, message: Any) -> None:
        """Tell everybody that the run is over, until they have left."""
        self.is_over = True
        await self.hub.say_farewell(encode(Tag(run=self.run, node=self.name), stop=message), at_once=self.at_once)

    # what the hub calls

    def greet(self, child: Child, tag: Tag) -> Tag:
        """Note the update a child may still hold."""
        self._ways.admit(child)
        number, hello = child.number, child.hello
        if hello.holds and child.trains:
            self.on_sketch(number, tag, hello.sketch)
        if not child.trains or not (hello.holds and self.gathering.counts(number, tag)):
            if child.trains:
                self.gathering.forget(number)  # it may have died with its update, and computes it again, the same
            return Tag(run=self.run, node=self.name)
        with struck(self.attendance, number, self.gathering.changed):
            sketch = believed(self._ways.checked, child, hello.sketch, self.learnt)
        child.model = model_of(tag)
        self.gathering.take(number, self.gathering.held.get(number) or Held(tag, sketch))
        return tag.by(self.name)

    def attached(self, child: Child) -> None:
        """A new child, or a visitor, is there; a newcomer waits until a model is to be evaluated."""
        if child.trains or child.hello.visitor:
            self._ways.attached(self, child)

    def detached(self, child: Child) -> None:
        """Nothing more will come on this stream; a visitor's end says nothing of the child that trains."""
        note_debts(self, child)
        self._ways.gone(self, child)
        if child.hello.visitor:
            return
        self.sent.pop(child.number, None)
        self.collecting.give_up(child.number)
        for book in (self.gathering, self.attendance, self.learnt) if child.shut_out else ():
            book.forget(child.number)
        for waiting in (self.gathering, self.evaluating):
            if waiting is not None:
                waiting.changed.set()

    def expects(self, child: Child, tag: Tag, begin: Any) -> VectorSpec:
        """Updates that were asked for."""
        if begin.purpose != pb.UPDATE or not child.trains:
            raise RefusedError("unexpected", "a vector came that nobody asked for")
        self.collecting.check(tag, child.number)
        return self._ways.update_spec

    def take_vector(self, child: Child, arrival: Arrival) -> None:
        """A child's update."""
        with struck(self.attendance, child.number, self.gathering.changed):
            self.collecting.take(child.number, arrival)

    def take_message(self, child: Child, tag: Tag, frame: Any) -> None:
        """A child's sketch, figures of UEs, a request for the model, or that there is no update."""
        kind = frame.WhichOneof("body")
        if child.hello.visitor:
            raise RefusedError("unexpected", f"a {kind} came from a visitor")
        if child.never_trains and kind != "figures":
            raise RefusedError("unexpected", f"a {kind} came from a UE that never trains")
        match kind:
            case "sketch":
                check_speaker(tag, name=child.name, run=self.run)
                if child.may_repeat and self.gathering.holds(child.number, tag):  # the question and it have crossed
                    child.may_repeat -= 1
                    return
                self.on_sketch(child.number, tag, frame.sketch)
                check_due(self, child, tag)
                with struck(self.attendance, child.number, self.gathering.changed):
                    sketch = believed(self._ways.checked, child, frame.sketch, self.learnt)
                if child.number not in self.gathering.vacant:  # it has waited itself
                    self.sketches.heard(child.number)
                self.gathering.take(child.number, Held(tag, sketch))
                child.asked_again, child.model = False, model_of(tag) or child.model
            case "figures" if self.evaluating is not None:
                allowed = self._ways.reports_on(child.number)
                self.evaluating.take(tag, child.number, frame.figures, allowed=allowed)
            case "request":
                self._ways.requested(self, child)
            case "secure" if self.took_step is not None:
                check_speaker(tag, name=child.name, run=self.run)
                with struck(self.attendance, child.number, self.gathering.changed):
                    self.took_step(child, tag, frame.secure)
            case "refusal":
                self._declined(child, tag, frame.refusal.code, frame.refusal.reason)
            case _:
                raise RefusedError("unexpected", f"a {kind} came that nobody asked for")

    def _declined(self, child: Child, tag: Tag, code: str, reason: str) -> None:
        """A child computes nothing usable on the model, has no update for an order, or has not got the model."""
        number = child.number
        about_current = self.gathering.is_current(tag)
        if code in UNUSABLE and self.gathering.tag is not None:
            if about_current:  # of an older model it is no longer asked
                self.gathering.give_up(number)
        elif code == "late" and about_current and number in self.gathering.vacant:
            if self.sketches.renew(number):
                child.handed_s = asyncio.get_running_loop().time()
            self.gathering.expects(number)
        elif self.collecting.awaits(tag, number):
            self.collecting.declined(number)
            self._ways.declined(self, child)
        elif code == "empty" and about_current and self._ways.are_parents:
            self.sketches.lacks(number)
            self.gathering.lacks(number, plain(reason))
        elif child.asked_again and about_current:
            child.asked_again, child.model = False, b""
            self.hand_out([child])
        else:
            raise RefusedError("unexpected", "what was declined had not been asked for")


def _unheard(*told: object) -> None:
    """Nobody counts what children are sent and send."""
