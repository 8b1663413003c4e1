"""An edge's UEs: sends them models, gathers sketches, collects updates into one mean, lets them evaluate."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.averaging import RunningMean
from hpfl.deployment.checks import check_sketch, check_update, check_weight
from hpfl.deployment.evaluating import Evaluating
from hpfl.deployment.gathering import Collecting, Gathering, asked_until, until
from hpfl.deployment.hub import Child, Hub
from hpfl.deployment.logs import log
from hpfl.deployment.metrics import Metrics
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import ue_roster
from hpfl.deployment.refusal import UNUSABLE, RefusedError
from hpfl.deployment.settings import EdgeNodeSettings
from hpfl.deployment.wire import Arrival, Tag, Vector, VectorSpec, encode, vector_frames

SOONER = 0.8
"""Of the time a cloud waits for its edges, the share they wait for their UEs: their answer must come in time."""

_SLOT_SHARE = 0.25
"""Of a deadline, how long a UE that does not answer may keep others from being asked."""

_LEAST_SLOTS = 8
"""Updates that may be on their way in at once, however large they are."""

Seconds = dict[int, tuple[float, float]]
"""Planned seconds of each UE: computing, sending."""


class Flock:
    """The parent of an edge's UEs; knows nothing of the cloud."""

    def __init__(self, settings: EdgeNodeSettings, experiment: SharedWork) -> None:
        self.metrics = Metrics()
        self.name = settings.name
        self.run = ""
        self.gathering: Gathering | None = None
        self.visitors: set[Child] = set()
        self.visited = asyncio.Event()
        self._experiment = experiment
        self._timing = settings.timing
        self._roster = ue_roster(settings.ues, experiment.config, settings.number)
        self._slots = max(int(settings.limits.buffer_mb * 1e6 // experiment.spec.nbytes), _LEAST_SLOTS)
        self._frames: list[bytes] = []
        self._mean = RunningMean(experiment.spec.length)
        self._collecting: Collecting | None = None
        self._evaluating: Evaluating | None = None
        self._gather_until_s = 0.0
        self.hub = Hub(
            self, self._roster, fingerprint=experiment.fingerprint, limits=settings.limits, metrics=self.metrics
        )

    async def start(self, settings: EdgeNodeSettings) -> int:
        """Listen for UEs; the port."""
        self._gather_until_s = asyncio.get_running_loop().time() + self._timing.gather_s
        return await self.hub.start(settings.listen, settings.tls)

    async def sketched(self, tag: Tag, vector: Vector, only: set[int] | None = None) -> Gathering:
        """Send a model down and wait for the sketches of all (or `only` some) UEs that are there.

        There are none where the model has diverged, so that no UE that is there computes anything usable on it.
        """
        gathering = Gathering(tag.by(self.name))
        self.run = tag.run
        self.gathering = gathering
        self._frames = list(vector_frames(gathering.tag, vector, purpose=pb.TRAIN))
        seconds = SOONER * self._timing.compute_s
        while True:
            there = self._missing(gathering, only)
            self.hub.send_all(self._frames, there, at_once=self._slots, still=lambda: self.gathering is gathering)
            complete = await asked_until(
                lambda: self._complete(gathering, only),
                gathering.changed,
                seconds,
                lambda: self._ask_again(gathering, only),
            )
            if complete or gathering.sketches or only is not None:
                return gathering  # whoever has not computed by now is left out

    def _owing(self, gathering: Gathering, only: set[int] | None) -> set[int]:
        wanted = self.hub.children.keys() if only is None else only & self.hub.children.keys()
        return wanted - gathering.sketches.keys() - gathering.failed

    def _missing(self, gathering: Gathering, only: set[int] | None) -> list[Child]:
        return [self.hub.children[number] for number in self._owing(gathering, only)]

    def _ask_again(self, gathering: Gathering, only: set[int] | None) -> None:
        """Ask those who owe a sketch for it; a UE that has not got the model says so."""
        missing = self._missing(gathering, only)
        for child in missing:
            child.asked_again = True
        self.hub.send_all([encode(gathering.tag, request=pb.Request())], missing, at_once=self._slots)

    def _complete(self, gathering: Gathering, only: set[int] | None) -> bool:
        heard = bool(gathering.sketches) or bool(gathering.failed & self.hub.children.keys())
        if not heard or self._owing(gathering, only):
            return only is not None and not only & self.hub.children.keys()
        early = asyncio.get_running_loop().time() < self._gather_until_s
        return only is not None or not early or len(self.hub.children) == len(self._roster)

    async def collected(
        self, tag: Tag, plan: Seconds, samples: Mapping[int, int], *, paced: bool, within_s: float
    ) -> tuple[RunningMean, dict[int, float]]:
        """The mean of the updates of the UEs in a plan, and the seconds each took; who is late is left out.

        `samples` is how many were announced for each UE: an update that comes with another number is refused.
        """
        mean = self._mean
        mean.restart()
        collecting = Collecting(tag.by(self.name), lambda number, arrival: self._add(mean, samples[number], arrival))
        self._collecting = collecting
        turn = asyncio.Semaphore(self._slots)
        crowd = min(1.0, self._slots / max(len(plan), 1))  # several waves, each faster: together as long as planned

        async def one(number: int) -> None:
            async with turn:
                child = self.hub.children.get(number)
                if child is not None:
                    compute_s, upload_s = plan[number]
                    order = pb.Order(compute_s=compute_s, upload_s=upload_s * crowd, paced=paced)
                    answer = collecting.ask(number)
                    await child.send(encode(collecting.tag, order=order))
                    await asyncio.wait({answer}, timeout=_SLOT_SHARE * within_s)
            if child is not None:
                await answer

        asking = [asyncio.ensure_future(one(number)) for number in plan]
        try:
            if asking:
                await asyncio.wait(asking, timeout=within_s)
        finally:
            collecting.close()
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if len(collecting.seconds) < len(plan):
            missing = sorted(set(plan) - set(collecting.seconds))
            log("went on without some UEs", level=logging.WARNING, round=tag.round, missing=missing[:20])
        return mean, collecting.seconds

    async def evaluated(self, tag: Tag, vector: Vector) -> Evaluating:
        """Every UE's figures of a model, as far as they come in time."""
        evaluating = Evaluating(tag.by(self.name))
        self._evaluating = evaluating
        frames = list(vector_frames(evaluating.tag, vector, purpose=pb.EVALUATE))
        self.hub.send_all(frames, list(self.hub.children.values()), at_once=self._slots)
        seconds = SOONER * self._timing.evaluate_s
        await until(lambda: set(self.hub.children) <= evaluating.heard, evaluating.changed, seconds)
        return evaluating

    def answer_visitors(self, tag: Tag, vector: Vector) -> None:
        """The global model to everybody who has asked for it."""
        frames = list(vector_frames(tag.by(self.name), vector, purpose=pb.GLOBAL))
        waiting, self.visitors = list(self.visitors), set()
        self.hub.send_all(frames, waiting, at_once=self._slots)

    async def stop(self, message: Any) -> None:
        """Tell every UE that the run is over, until it has left."""
        await self.hub.say_farewell(encode(Tag(run=self.run, node=self.name), stop=message), at_once=self._slots)

    # what the hub calls

    def greet(self, child: Child, tag: Tag) -> Tag:
        """Note the update a UE may still hold."""
        hello, gathering = child.hello, self.gathering
        if not 1 <= hello.num_samples <= self._experiment.bounds.num_samples:
            raise RefusedError("samples", f"{hello.num_samples} samples are declared")
        own = gathering.tag if gathering else Tag(run=self.run, node=self.name)
        if hello.visitor:
            return own
        if gathering and hello.holds and tag.about_same_model(gathering.tag):
            sketch = check_sketch(hello.sketch, width=self._experiment.sketch_width, bounds=self._experiment.bounds)
            self._check_samples(sketch.weight, sketch.num_samples, hello.num_samples)
            gathering.sketches.setdefault(child.number, sketch)
            gathering.changed.set()
        return own

    async def attached(self, child: Child) -> None:
        """Send the current model to a UE that has not computed on it."""
        if child.hello.visitor:
            self.visitors.add(child)
            self.visited.set()
        elif self.gathering is not None and child.number not in self.gathering.sketches:
            await child.send(*self._frames)

    def detached(self, child: Child) -> None:
        """Nothing more will come on this stream; a visitor's end says nothing of the UE that trains."""
        if child.hello.visitor:
            self.visitors.discard(child)
            return
        if self._collecting is not None:
            self._collecting.give_up(child.number)
        for waiting in (self.gathering, self._evaluating):
            if waiting is not None:
                waiting.changed.set()

    def expects(self, child: Child, tag: Tag, begin: Any) -> VectorSpec:
        """Updates that were asked for."""
        if begin.purpose != pb.UPDATE or self._collecting is None or child.hello.visitor:
            raise RefusedError("unexpected", "a vector came that nobody asked for")
        self._collecting.check(tag, child.number)
        return self._experiment.spec

    def take_vector(self, child: Child, arrival: Arrival) -> None:
        """A UE's update."""
        assert self._collecting is not None  # `expects` has checked it
        self._collecting.take(child.number, arrival)

    def take_message(self, child: Child, tag: Tag, frame: Any) -> None:
        """A UE's sketch or its figures."""
        kind = frame.WhichOneof("body")
        if child.hello.visitor:
            raise RefusedError("unexpected", f"a {kind} came from a visitor")
        if kind == "sketch" and self.gathering is not None:
            self.gathering.check(tag, child.number)
            sketch = check_sketch(frame.sketch, width=self._experiment.sketch_width, bounds=self._experiment.bounds)
            self._check_samples(sketch.weight, sketch.num_samples, child.hello.num_samples)
            self.gathering.take(child.number, sketch)
            child.asked_again = False
        elif kind == "figures" and self._evaluating is not None:
            self._evaluating.take(tag, child.number, frame.figures, allowed={child.number})
        elif kind == "refusal":
            self._declined(child, tag, frame.refusal.code)
        else:
            raise RefusedError("unexpected", f"a {kind} came that nobody asked for")

    def _declined(self, child: Child, tag: Tag, code: str) -> None:
        """A UE has not got the model it is asked about, computes nothing usable on it, or no update for an order."""
        if code in UNUSABLE and self.gathering is not None:
            if tag.about_same_model(self.gathering.tag):  # of an older model it is no longer asked
                self.gathering.give_up(child.number)
        elif child.asked_again and self.gathering is not None and tag.about_same_model(self.gathering.tag):
            child.asked_again = False
            self.hub.send_all(self._frames, [child], at_once=1)
        elif self._collecting is not None and self._collecting.awaits(tag, child.number):
            self._collecting.give_up(child.number)
        else:
            raise RefusedError("unexpected", "what was declined had not been asked for")

    def _add(self, mean: RunningMean, num_samples: int, arrival: Arrival) -> None:
        begin = arrival.begin
        self._check_samples(begin.weight, int(begin.num_samples), num_samples)
        vector = arrival.vector()
        check_update(vector, self._experiment.bounds)
        mean.add(vector, begin.weight)
        self.metrics.accepted.inc()

    def _check_samples(self, weight: float, came: int, declared: int) -> None:
        if came != declared:
            raise RefusedError("samples", f"{came} samples came with a message, declared were {declared}")
        wanted = self._experiment.weight(declared)
        check_weight(weight, declared, wanted=wanted, bounds=self._experiment.bounds)
