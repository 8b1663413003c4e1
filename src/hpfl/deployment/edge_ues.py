"""An edge's UEs through one round: sends them models, waits for sketches, collects updates into one mean."""

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

from hpfl.arrays import FloatArray
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.from_ues import FromUes
from hpfl.deployment.gathering import Gathering, mean_sketch
from hpfl.deployment.hub import Child
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_names import default_name
from hpfl.deployment.node_parts import training_slots, ue_roster
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.rosters import training_seats
from hpfl.deployment.secure_sums import SOONER, SecureSums
from hpfl.deployment.settings import EdgeNodeSettings
from hpfl.deployment.waiting import asked_until
from hpfl.deployment.wire import Tag, Vector

_LEAST_SLOTS = 8
"""Updates that may be on their way in at once, however large they are."""


@dataclass(frozen=True)
class UePlan:
    """What an order says of one UE: seconds of computing and of sending, and which of its updates has counted last."""

    compute_s: float
    upload_s: float
    counted: int


class EdgeUes:
    """The parent of an edge's UEs; knows nothing of the cloud."""

    def __init__(self, settings: EdgeNodeSettings, experiment: SharedWork) -> None:
        slots = max(int(settings.limits.buffer_mb * 1e6 // experiment.spec.nbytes), _LEAST_SLOTS)
        roster = ue_roster(settings, experiment.config)
        self.ways = FromUes(experiment, len(roster.slots))
        self.side = ParentSide(settings, experiment, roster, self.ways, at_once=slots, share=SOONER)
        self.hub = self.side.hub
        self.secure: SecureSums | None = None
        if experiment.config.secure.on:
            members = training_slots(experiment.config, settings.number, experiment.newcomers)
            self.secure = self.ways.secure = SecureSums(settings, experiment, self.side, members)
            self.side.took_step = self.secure.take
        self._least = 1 if self.secure is None else self.secure.threshold
        self.told_vacant = False
        self._timing = settings.timing

    async def sketched(
        self, tag: Tag, vector: Vector, only: set[int] | None = None, vacant: Callable[[bool], object] = id
    ) -> dict[int, CheckedSketch]:
        """Send a model down and wait for the sketches of all (or `only` some) UEs that are there and not left out.

        There are none where the model has diverged: most UEs of the roster say that they compute nothing usable on it.
        Where nobody is there who could compute, or a few alone who say so, whoever comes is waited for; `vacant` is
        told that it is so, or no longer so.
        """
        side, own = self.side, tag.by(self.side.name)
        gathering = side.gathering = Gathering(own)
        side.run, side.model = tag.run, NamedModel(own, vector)
        side.sketches.restart()
        if self.secure is None:
            return self.ways.trusted(await self._gathered(gathering, only, vacant))
        return await self.secure.gathered(tag, lambda: self._gathered(gathering, only, vacant), only, vacant)

    def mean_sketch(self, sketches: Mapping[int, CheckedSketch]) -> tuple[FloatArray, float]:
        """The mean of the sketches that were gathered last, and their weight."""
        if self.secure is None:
            return mean_sketch(sketches.values())
        return self.secure.sketch, sum(sketch.weight for sketch in sketches.values())

    async def _gathered(
        self, gathering: Gathering, only: set[int] | None, vacant: Callable[[bool], object]
    ) -> dict[int, CheckedSketch]:
        """What the UEs say that have computed, of those that are there and not left out."""
        side = self.side

        def complete() -> bool:
            done = self._complete(gathering, only)
            if only is None and not done and self._is_vacant() != self.told_vacant:
                self.told_vacant = not self.told_vacant
                vacant(self.told_vacant)
            return done

        while True:
            side.hand_out(self._asked(gathering, only))
            waiting = SOONER * self._timing.compute_s
            done = await asked_until(
                complete, gathering.changed, waiting, lambda: side.ask_again(self._owing(gathering, only))
            )
            there = self._waited_for(only)
            owing = [child.number for child in self._owing(gathering, only) if child.number in there]
            side.sketches.close(owing, len(there))
            held = {ue: gathering.held[ue].sketch for ue in sorted(gathering.held.keys() - side.attendance.left_out())}
            if done or len(held) >= self._least or only is not None:  # whoever has not computed by now is left out
                self.told_vacant = False  # the sketch says so
                return held

    def other_names(self, ues: Collection[int]) -> list[str]:
        """The names of some UEs on this edge's roster; none where all are called as numbers have it, `ue-7`."""
        name_of = {number: name for name, number in self.side.roster.items()}
        names = [name_of.get(ue, default_name(ue)) for ue in ues]
        return [] if names == [default_name(ue) for ue in ues] else names

    def _is_vacant(self) -> bool:
        """Whether nobody is there yet who could compute, or not everybody; who is left out is asked now and then."""
        side = self.side
        if len(side.waited_for() - side.gathering.failed) >= self._least:
            return side.opening.is_early()
        asleep = side.attendance.left_out() - side.gathering.held.keys()
        side.hand_out([child for number, child in self.hub.children.items() if number in asleep])
        return True

    def _asked(self, gathering: Gathering, only: set[int] | None) -> list[Child]:
        there = self.hub.children
        wanted = there.keys() if only is None else only & there.keys()
        return [there[number] for number in wanted - gathering.held.keys() - gathering.failed]

    def _owing(self, gathering: Gathering, only: set[int] | None) -> list[Child]:
        out = self.side.attendance.left_out()
        return [child for child in self._asked(gathering, only) if child.number not in out]

    def _waited_for(self, only: set[int] | None) -> Set[int]:
        """Who is worth waiting for: who is there, was asked, and can still take part."""
        there = self.side.waited_for() if only is None else only & self.side.waited_for()
        return there if self.secure is None else self.secure.able(there)

    def _complete(self, gathering: Gathering, only: set[int] | None) -> bool:
        """Whether all UEs that are worth it have answered."""
        there = self._waited_for(only)
        if len(there) < (self._least if only is None else 1):
            return only is not None
        if len(gathering.held) + len(gathering.failed) < self.side.attendance.quorum_of(len(there)):
            return False  # said of a thousand UEs without looking at each, as below
        awaited = self.side.sketches.awaited()
        if awaited in there and awaited not in gathering.held and awaited not in gathering.failed:
            return False
        heard = there & (gathering.held.keys() | gathering.failed)
        owing = there - heard
        if not heard or (only is None and (self.side.opening.is_early() or self._is_unproved(gathering))):
            return False
        return not owing or (bool(gathering.held) and self.side.sketches.is_over(owing, len(there)))

    def _seats(self) -> Collection[int]:
        return training_seats(self.side.roster, self.side.newcomers)

    def _is_unproved(self, gathering: Gathering) -> bool:
        """Whether a few UEs alone have answered, and say that they compute nothing usable: no word on the model."""
        return not gathering.held and not gathering.most_failed(self._seats())

    async def collected(
        self,
        tag: Tag,
        plan: Mapping[int, UePlan],
        announced: Mapping[int, CheckedSketch],
        asked: Any,
        *,
        within_s: float,
    ) -> dict[int, float]:
        """Let the UEs in a plan deliver as their edge was `asked` to, into `combined`; the seconds each took.

        Who is late is left out. Another update than the one `announced`, or one with other samples, is refused.
        """
        slots = self.side.at_once
        crowd = min(1.0, slots / max(len(plan), 1))  # several waves, each faster: together as long as planned
        orders = {
            ue: pb.Order(
                compute_s=one.compute_s,
                upload_s=one.upload_s * crowd,
                paced=asked.paced,
                coding=asked.coding,
                counted=one.counted,
            )
            for ue, one in plan.items()
        }
        if self.secure is not None:
            due = self.secure.begin_updates(orders)
            orders = {ue: order for ue, order in orders.items() if ue in due}
        self.ways.begin(announced, asked.coding)
        known = {*self._seats(), *orders}  # who has left the roster since it was planned counts as missing
        tags = dict.fromkeys(known, tag.by(self.side.name))
        planned_s = {ue: one.compute_s + one.upload_s for ue, one in plan.items()} if asked.paced else {}
        took = await self.side.collect(orders, tags, at_once=slots, within_s=within_s, planned_s=planned_s)
        summed = took.keys() if self.secure is None else await self.secure.summed(tag, announced)
        return {ue: seconds for ue, seconds in took.items() if ue in summed}

    async def evaluated(self, tag: Tag, vector: Vector) -> dict[int, Vector]:
        """Every UE's figures of a model, as far as they come in time."""
        model = NamedModel(tag.by(self.side.name), vector)
        return await self.side.evaluate(model, within_s=SOONER * self._timing.evaluate_s)

    def answer_visitors(self, tag: Tag, vector: Vector) -> None:
        """The global model to everybody who has asked for it."""
        frames = NamedModel(tag.by(self.side.name), vector).frames(pb.GLOBAL)
        waiting, self.ways.visitors = list(self.ways.visitors), set()
        self.hub.send_all(frames, waiting, at_once=self.side.at_once)
