"""One edge: a child of the cloud and the parent of its UEs; lets them compute, averages, and sends the mean up."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.cell_noise import CellNoise
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.child import ChildSide
from hpfl.deployment.coder import Coder
from hpfl.deployment.edge_ues import EdgeUes, UePlan
from hpfl.deployment.gathering import edge_noise
from hpfl.deployment.logs import log
from hpfl.deployment.model_steps import ModelStep
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import training_slots
from hpfl.deployment.refusal import Code, RefusedError
from hpfl.deployment.secret_draws import kept_key
from hpfl.deployment.settings import EdgeNodeSettings
from hpfl.deployment.stream import sleep_until
from hpfl.deployment.uploading import Upload
from hpfl.deployment.wire import Tag, Vector, digest_of, numbers
from hpfl.learning.coding import BY_EDGE


@dataclass(frozen=True)
class Base:
    """The model an edge works on, and the sketches of the UEs that have computed on it."""

    vector: Vector
    sketches: dict[int, CheckedSketch]

    def samples(self, ues: Iterable[int]) -> int:
        """Samples of some UEs that count."""
        return sum(self.sketches[ue].num_counted for ue in ues)

    def weighed(self, sketches: Mapping[int, CheckedSketch]) -> dict[int, CheckedSketch]:
        """Sketches of a later edge round, of UEs that have the samples they had, with the weights they had."""
        first = self.sketches
        same = {ue: one for ue, one in sketches.items() if one.num_samples == first[ue].num_samples}
        return {ue: replace(one, weight=first[ue].weight) for ue, one in same.items()}


@dataclass(frozen=True)
class Finished:
    """What an edge has collected and made ready, by which entry of the menu of codings."""

    upload: Upload
    coding: int


class Edge:
    """The process of one edge."""

    purposes: Collection[int] = frozenset({pb.TRAIN, pb.EVALUATE, pb.GLOBAL})
    num_samples = 0

    def __init__(self, settings: EdgeNodeSettings, experiment: SharedWork) -> None:
        self.ues = EdgeUes(settings, experiment)
        slots = training_slots(experiment.config, settings.number, experiment.newcomers)
        self.orders_for: Collection[int] = frozenset(slots)  # whoever sits there, now or later
        self.up = ChildSide(settings, experiment, self, address=settings.cloud, parent=settings.cloud_name)
        self._settings = settings
        self._experiment = experiment
        self._base: Base | None = None
        self._coder = Coder.of(experiment, BY_EDGE, settings.number, settings.state)
        self._noise = _noise(settings, experiment)
        self._finished: Finished | None = None
        self._collected_s = 0.0

    async def start(self) -> int:
        """Listen for UEs; the port."""
        return await self.ues.side.start()

    async def run(self) -> None:
        """Stay attached to the cloud until the run is over."""
        try:
            await self.up.run()
        finally:
            await self.ues.hub.stop()

    async def settle(self) -> None:
        """Wait until what the cloud has asked for is sent, so that no update a UE has delivered is lost."""
        await self.up.settle()

    # what the child's side asks for

    def attached(self) -> None:
        """Ask for the global model as long as there are visitors; say again that no UE is here, where none is."""
        self.ues.told_vacant = False
        self.up.link.background.start("visits", self._pass_on_visits())

    def turned(self) -> None:
        """Stop collecting for the model before; what came is of no use."""
        self.up.uploads.cancel()
        self._base = self._finished = None

    async def sketched(self, tag: Tag, vector: Vector) -> Any:
        """Let the UEs compute on a new model; the mean of their sketches, once there is a UE that computes."""

        def vacant(nobody: bool) -> None:
            code: Code = "empty" if nobody else "late"
            why = _why_vacant(self.ues) if nobody else "UEs have come and compute"
            self.up.link.background.start("vacant", self.up.link.decline(tag, code, why))

        sketches = await self.ues.sketched(tag, vector, vacant=vacant)
        if not sketches:
            raise RefusedError("nonfinite", "no UE computes a usable update on that model")
        values, weight = self.ues.mean_sketch(sketches)
        if self._noise is not None:
            values = self._noise.sketched(tag, values, sketches.keys())
        self._base = Base(vector, sketches)
        total, each = self._base.samples(sketches), [sketch.num_counted for sketch in sketches.values()]
        work, came = self._experiment, list(sketches.values())
        noise = edge_noise(came, values, work.foretold, backhaul=work.config.network.backhaul)
        return pb.Sketch(
            values=numbers(values),
            weight=weight,
            num_samples=total,
            ue=list(sketches),
            samples=each,
            took_s=max(sketch.took_s for sketch in sketches.values()),
            noise=numbers(noise),
            name=self.ues.other_names(sketches),
            left_out=sorted(self.ues.side.attendance.left_out()),
            anew=[ue for ue, sketch in sketches.items() if sketch.anew],
        )

    async def upload(self, tag: Tag, order: Any) -> Upload | None:
        """The mean of what the UEs of an order deliver; what was collected before is sent again as it is.

        Where the band is phased, it is not sent before the order's switch: until then it is the UEs'.
        """
        sends_s = asyncio.get_running_loop().time() + order.switch_s
        if self._base is not None and (self._finished is None or self._finished.coding != order.coding):
            self._finished = await self._finish(self._base, tag, order)
            sends_s = max(sends_s, self._collected_s)
        if self._finished is None:
            return None
        if order.paced:
            await sleep_until(sends_s)
        return replace(self._finished.upload, since_s=sends_s)

    async def _finish(self, base: Base, tag: Tag, order: Any) -> Finished | None:
        """All edge rounds on one base (paper, section 3.2); None where nobody delivered."""
        settings = self._experiment.edge_settings
        rounds = settings.edge_rounds
        each = zip(order.ue, order.ue_compute_s, order.ue_upload_s, order.ue_counted, strict=True)
        plan = {ue: UePlan(c / rounds, u / rounds, counted) for ue, c, u, counted in each if ue in base.sketches}
        announced = base.sketches
        total = np.zeros(self._experiment.spec.length)
        took: dict[int, float] = {}
        for edge_round in range(rounds):
            inner = replace(tag, edge_round=edge_round)
            if edge_round:
                start = (base.vector - settings.outer_lr * total).astype(base.vector.dtype)
                inner = replace(inner, base=digest_of(start))
                announced = base.weighed(await self.ues.sketched(inner, start, set(plan)))
                plan = {ue: plan[ue] for ue in plan if ue in announced}
            within_s = order.phase_deadline_s / rounds
            took = await self.ues.collected(inner, plan, announced, order, within_s=within_s)
            if not took:
                return None
            total += self.ues.ways.combined()
            plan = {ue: plan[ue] for ue in took}
        self._collected_s = asyncio.get_running_loop().time()
        return await self._made(total, base, took, tag, order)

    async def _made(self, update: Vector, base: Base, took: dict[int, float], tag: Tag, order: Any) -> Finished | None:
        """The update as it goes up, coded as the order says; None where the cloud would refuse it."""
        ues = sorted(took)
        if self._noise is not None:
            update = self._noise.delivered(tag, update, ues)
        update = update.astype(base.vector.dtype)
        samples = base.samples(ues)
        head = {"weight": self._experiment.weight(samples), "num_samples": samples}
        if self._experiment.updates.codes_again(order.coding):
            asked = {"key": tag.base_round, "coding": order.coding, "counted": order.counted}
            try:
                update = await asyncio.to_thread(self._coder.coded, update, tag, **asked)
            except RefusedError as error:
                log("not sent", level=logging.WARNING, round=tag.round, code=error.code, reason=error.reason)
                return None
        return Finished(Upload(update, {**head, "ue": ues, "took_s": [took[ue] for ue in ues]}), order.coding)

    async def figures(self, tag: Tag, vector: Vector) -> Any:
        """The UEs' figures of a model."""
        found = dict(sorted((await self.ues.evaluated(tag, vector)).items()))
        return pb.Figures(ue=list(found), values=numbers(np.array(list(found.values()))))

    def stepped(self, steps: tuple[ModelStep, ...]) -> None:
        """Keep the steps for UEs that hold the model they begin with."""
        self.ues.side.steps.add(steps)

    def fetched(self, tag: Tag, vector: Vector) -> None:
        """The global model, for the visitors."""
        self.ues.answer_visitors(tag, vector)

    async def end(self, stop: Any) -> None:
        """Pass the farewell on."""
        await self.ues.side.farewell(stop)

    async def _pass_on_visits(self) -> None:
        """Ask the cloud for the global model whenever somebody has asked for it here."""
        ways = self.ues.ways
        while True:
            if not ways.visitors:
                await ways.visited.wait()
            ways.visited.clear()
            await self.up.link.say(Tag(run=self.ues.side.run), request=pb.Request())
            with suppress(TimeoutError):  # the answer may be lost: ask again while somebody waits
                async with asyncio.timeout(self._settings.timing.retry_s):
                    await ways.visited.wait()


def _why_vacant(ues: EdgeUes) -> str:
    """Who is missing, where nobody computes."""
    named = ues.secure.missing if ues.secure is not None else []
    return f"it waits for {', '.join(named)}, who were in a sum" if named else "UEs that compute are missing"


def _noise(settings: EdgeNodeSettings, work: SharedWork) -> CellNoise | None:
    """What an edge adds to what leaves its cell; None: nothing."""
    if work.private is None:
        return None
    key = cache(lambda: kept_key(Path(settings.state)))
    return CellNoise(work.private, settings.number, work.spec.length, work.sketches.sketch, key)
