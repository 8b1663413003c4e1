"""The cloud's round over the network: sends models and orders to edges, and tells what came back; decides nothing."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.deliveries import Delivered, Held, NobodyError, StoppedError
from hpfl.deployment.from_edges import FromEdges
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.model_steps import ModelStep
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import edge_roster, ue_slots
from hpfl.deployment.orders import planned_s_of
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.releases import FILE, Releases
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.waiting import asked_until
from hpfl.deployment.wire import Tag, Vector
from hpfl.training.cloud_step import DivergedError

_AT_ONCE = 16


class Cloud:
    """The parent of all edges."""

    def __init__(self, settings: CloudNodeSettings, experiment: SharedWork, run: str) -> None:
        self.roster = edge_roster(settings, experiment.config)
        ues_of = [set(ue_slots(experiment.config, k)) for k in self.roster.slots]
        self.run, self.newcomers = run, experiment.newcomers
        self.task = experiment.task
        self.stopping = asyncio.Event()
        self._timing, self._gives_up = settings.timing, settings.gives_up
        self._ways = FromEdges(experiment, ues_of)
        self._side = ParentSide(settings, experiment, self.roster, self._ways, at_once=_AT_ONCE)
        self._side.run = run
        self.hub, self.metrics = self._side.hub, self._side.metrics
        self.ue_names: Mapping[int, str] = self._ways.ue_names  # as their edges call them, by number
        self.releases: Releases | None = None
        if experiment.private is not None:
            path, side = Path(settings.out) / FILE, self._side
            trained = [ues - self.newcomers for ues in ues_of]
            self.releases = Releases(trained, experiment.config.network.num_ues, path)
            side.on_models, side.on_sketch = self.releases.handed, self.releases.sketched
        self.ues_out: Mapping[int, frozenset[int]] = self._ways.ues_out  # by edge
        self.ues_anew: Mapping[int, frozenset[int]] = self._ways.ues_anew

    @property
    def held(self) -> Mapping[int, Held]:
        """What edges have announced, by edge."""
        return self._side.gathering.held

    @property
    def delivered(self) -> Mapping[int, Delivered]:
        """The updates of the newest round in the order of arrival."""
        return self._ways.delivered

    async def start(self) -> int:
        """Listen for edges; the port."""
        return await self._side.start()

    def named(self, vector: Vector, *, round_number: int) -> NamedModel:
        """The model after a round under its name; the current one is known already, and is not hashed again."""
        current = self._side.model
        if current is not None and current.tag.round == round_number:
            return current
        return NamedModel.after(vector, run=self.run, node=self._side.name, round_number=round_number)

    def publish(self, model: NamedModel) -> None:
        """Make a model the current one."""
        side = self._side
        side.metrics.round.set(model.tag.round)
        if side.model is not model:
            side.model = model
            side.gathering.turn_to(model.tag)
            side.sketches.restart()
            side.sent.clear()

    def accept_only(self, allowed: Mapping[int, Tag]) -> None:
        """Name the model (digest and round) that each edge's update may be computed on, beside the current one."""
        self._side.gathering.allowed = dict(allowed)

    async def observe(self) -> dict[int, Held]:
        """Wait until the edges that are there have an update that is valid; raises where the model allows of none."""
        side, gathering = self._side, self._side.gathering
        gathering.drop_invalid()
        within_s, waited_s = self._timing.compute_s, 0.0
        while not await asked_until(self._all_ready, gathering.changed, within_s, lambda: side.ask_again(_owing(side))):
            waited_s += within_s
            if _ready(side):
                break  # whoever is not ready by now is left out
            if waited_s >= self._timing.patience_s:
                self._lose_patience(waited_s)
            side.sent.clear()  # an answer may have been lost: ask again
        if self.stopping.is_set():
            raise StoppedError
        side.sketches.close([child.number for child in _owing(side)], len(side.waited_for()))
        held = {edge: gathering.held[edge] for edge in sorted(_ready(side))}
        if not held and gathering.all_failed(side.roster.values()):  # one that is away may yet
            raise _diverged(gathering.tag)
        return self._ways.trusted(held)

    def _lose_patience(self, waited_s: float) -> None:
        """Where most edges say that the model is lost, it is; else whoever is not there may still come."""
        gathering, seats = self._side.gathering, self._side.roster.values()
        if gathering.most_failed(seats):
            raise _diverged(gathering.tag)
        if self._gives_up:
            lacking = ", ".join(f"edge {number}: {why}" for number, why in sorted(gathering.vacant.items()))
            raise NobodyError(f"no edge had an update for {waited_s:.0f} s" + (f" ({lacking})" if lacking else ""))
        told: dict[str, Any] = {"unusable_at": sorted(gathering.failed), "of": len(seats)} if gathering.failed else {}
        told |= {"lacking": dict(sorted(gathering.vacant.items()))} if gathering.vacant else {}
        log("no edge has an update", level=logging.WARNING, waited_s=round(waited_s), **told)

    def _all_ready(self) -> bool:
        """Whether all edges that are worth it have answered; those that were not sent the model are sent it."""
        if self.stopping.is_set():
            return True
        side, children = self._side, self.hub.children
        for edge in () if side.waited_for() else list(children):
            side.attendance.need(edge, "no other edge is here")
        holds_nothing = [child for edge, child in children.items() if edge not in side.gathering.held]
        side.hand_out([child for child in holds_nothing if side.sent.get(child.number) is not child])
        if side.opening.is_early():
            return False
        if not _ready(side):
            return bool(children) and side.gathering.all_failed(side.roster.values())
        owing = [child.number for child in _owing(side)]
        return not owing or side.sketches.is_over(owing, len(side.waited_for()))

    async def execute(
        self, orders: Mapping[int, tuple[Tag, Any]], deadline_s: float, *, coding: int = 0
    ) -> dict[int, Delivered]:
        """Send every edge its order and wait for the updates until the deadline; in order of arrival.

        All are coded by one entry of the menu of codings.
        """
        delivered = self._ways.delivered = {}
        self._ways.coding = coding
        tags = {edge: tag.by(self._side.name) for edge, (tag, _) in orders.items()}
        asked = {edge: order for edge, (_, order) in orders.items()}
        planned_s = {edge: planned_s_of(self._timing, order) for edge, order in asked.items()}
        at_once = max(len(asked), 1)
        await self._side.collect(asked, tags, at_once=at_once, within_s=deadline_s, planned_s=planned_s)
        return delivered

    def state_of(self, edge: int) -> str:
        """What an edge is doing, in a word or two."""
        side, held = self._side, self.held.get(edge)
        if edge not in self.hub.children:
            return "absent"
        if side.attendance.is_left_out(edge):
            return "left out"
        if edge in side.gathering.vacant:
            return "without UEs"
        uploading = held is not None and side.collecting.is_open_for(edge)
        return "uploading" if uploading else "ready" if held else "computing"

    async def broadcast(self, edges: list[int], steps: Iterable[ModelStep] = (), *, after_s: float = 0.0) -> None:
        """Send the current model to edges, whose updates are spent; the steps to it to those that lack no more.

        It leaves after so many seconds, when it would be through on the modelled air; a stop waits for nothing.
        """
        self._side.steps.add(steps)
        if after_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(after_s):
                    await self.stopping.wait()
        for edge in edges:
            self._side.gathering.held.pop(edge, None)
        self._side.hand_out([self.hub.children[edge] for edge in edges if edge in self.hub.children])

    async def evaluate(self, model: NamedModel) -> dict[int, Any]:
        """Every UE's figures of a model, as far as they come in time."""
        return await self._side.evaluate(model, within_s=self._timing.evaluate_s, is_over=self.stopping.is_set)

    async def stop(self, *, completed: bool) -> None:
        """Tell everybody that it is over (or, not completed, that this cloud will be back), and close."""
        if completed:
            await self._side.farewell(pb.Stop(reason="the run is over", completed=True))
        await self.hub.stop()


def _owing(side: ParentSide) -> list[Child]:
    """The edges that are there and worth waiting for, and have not answered."""
    answered = side.gathering.held.keys() | side.gathering.failed | side.gathering.vacant.keys()
    return [side.hub.children[edge] for edge in side.waited_for() - answered]


def _ready(side: ParentSide) -> set[int]:
    """The edges that are there, not left out, and have an update."""
    return side.waited_for() & side.gathering.held.keys()


def _diverged(tag: Tag | None) -> DivergedError:
    assert tag is not None  # there is a model that edges were sent
    return DivergedError(
        f"the model after round {tag.round} has diverged: every UE's update on it is infinite, or "
        "larger than limits.update_norm of the UE, its edge or the cloud; try a smaller learning rate"
    )
