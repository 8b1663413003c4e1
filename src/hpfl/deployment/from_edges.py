"""What a cloud makes of what edges send: checks it, keeps updates that were asked for, answers requests."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.checks import CheckedSketch, check_edge_sketch
from hpfl.deployment.counted_samples import counted
from hpfl.deployment.deliveries import Delivered, Held, delivered_of
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_names import NODE_NAME
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, VectorSpec
from hpfl.training.norm_bound import FAR, NormBound, scale_of

_FAR_NOISE = 4.0
"""Times the usual norm of noise: two of them differ by half of that."""


class FromEdges:
    """The cloud's own ways with its children; `delivered` are this round's updates in the order of arrival.

    `coding` is the entry of the menu of codings that edges were ordered to send by; `ue_names` is what edges call UEs
    that bear other names than numbers have it, `ues_out` the UEs that each edge says it has left out,
    `ues_anew` those that began anew on the model they have computed on last.
    """

    children_are = "edges"
    are_parents = True

    def __init__(self, experiment: SharedWork, ues_of: Sequence[Collection[int]]) -> None:
        self.delivered: dict[int, Delivered] = {}
        self.ue_names: dict[int, str] = {}
        self.ues_out: dict[int, frozenset[int]] = {}
        self.ues_anew: dict[int, frozenset[int]] = {}
        self.coding = 0
        self._experiment = experiment
        self._reports_on = ues_of
        self._ues_of = [set(ues) - experiment.newcomers for ues in ues_of]  # that train
        self._answered: set[Child] = set()
        self._norms = NormBound(experiment.bounds.norm_ratio)
        self._planned: Mapping[int, Held] = {}

    @property
    def update_spec(self) -> VectorSpec:
        """What an edge's update must look like in this round."""
        return self._experiment.updates.edge_spec(self.coding)

    def admit(self, child: Child) -> None:
        """Edges alone."""
        if child.hello.visitor:
            raise RefusedError("unexpected", "visitors ask an edge")

    def attached(self, side: ParentSide, child: Child) -> None:
        """The round sees it and gives it the model."""
        side.gathering.changed.set()

    def gone(self, side: ParentSide, child: Child) -> None:
        """What an edge held has gone with it, until it says so again."""
        side.gathering.forget(child.number)

    def checked(self, child: Child, sketch: Any) -> CheckedSketch:
        """A sketch for UEs of this edge."""
        work, bounds = self._experiment, self._experiment.bounds
        checked = check_edge_sketch(
            child.number,
            sketch,
            width=work.sketch_width,
            largest=work.sketches.largest(bounds.update_norm),
            own=self._ues_of[child.number],
            most_samples=bounds.num_samples,
            codings=len(work.foretold),
        )
        _note_names(self.ue_names, checked.ues.tolist(), sketch.name)
        self.ues_out[child.number] = frozenset(sketch.left_out) & frozenset(self._ues_of[child.number])
        self.ues_anew[child.number] = checked.anew
        return checked

    def trusted(self, held: Mapping[int, Held]) -> dict[int, Held]:
        """What edges hold as it counts beside each other: none far above the others, samples up to a share."""
        bound = self._norms.among([one.sketch.norm for one in held.values()])
        chosen = {edge: one for edge, one in held.items() if scale_of(one.sketch.norm, bound)}
        for edge in held.keys() - chosen.keys():
            norm = held[edge].sketch.norm
            log("left out of this round", level=logging.WARNING, edge=edge, norm=norm, bound=bound)
        self._planned = self._weighed(chosen)
        return dict(self._planned)

    def _weighed(self, held: Mapping[int, Held]) -> dict[int, Held]:
        bounds, ends = self._experiment.bounds, np.cumsum([len(one.sketch.ues) for one in held.values()])
        declared = [one.sketch.samples for one in held.values()]
        if not declared:
            return {}
        each = np.split(counted(np.concatenate(declared), share=bounds.share, ratio=bounds.sample_ratio), ends[:-1])
        sketches = [replace(one.sketch, samples=mine) for one, mine in zip(held.values(), each, strict=True)]
        return {edge: Held(held[edge].tag, sketch) for edge, sketch in zip(held, sketches, strict=True)}

    def accept(self, side: ParentSide, number: int, arrival: Arrival) -> None:
        """Keep an edge's update if it is the one the edge has announced."""
        held = side.gathering.held.get(number)
        if held is None or not held.tag.about_same_model(arrival.tag):
            raise RefusedError("unexpected", f"edge {number} delivers what it has announced no longer")
        work, coding = self._experiment, self.coding
        delivered = delivered_of(
            arrival,
            held,
            read=lambda came: work.updates.from_edge(came, coding),
            bounds=work.bounds,
            weigh=work.weight,
            seconds=side.collecting.waited(number),
        )
        self._check_announced(number, held, delivered)
        counts = _samples(self._planned[number])
        total = sum(counts[ue] for ue in delivered.ues)
        self.delivered[number] = replace(delivered, weight=work.weight(total))
        self._norms.accepted(held.sketch.norm)
        side.metrics.accepted.inc()

    def _check_announced(self, number: int, held: Held, delivered: Delivered) -> None:
        """Refuse another update than the plan was made with, as far as that can be told.

        What an edge sends after several rounds of its own, or by another rule than the mean, its sketch does not say.
        """
        planned = self._planned.get(number)
        if planned is None or not np.array_equal(planned.sketch.values, held.sketch.values):
            raise RefusedError("sketch", f"edge {number} has announced another sketch since the plan")
        settings, check = self._experiment.edge_settings, self._experiment.sketches
        if settings.combine is not None or settings.edge_rounds > 1:
            return
        present, squared = self._present(held, delivered.ues), delivered.squared_norm
        room = check.coding_room(squared, self.coding, held.sketch.noise, hops=2)
        if present < 1.0:
            room += (1.0 - present) * self._missing_norm(held, squared) + _noise_norm(
                self._experiment, len(delivered.ues)
            )
        room += 0.0 if self._experiment.secure is None else self._experiment.secure.room
        announced = held.sketch.values / present if present < 1.0 else held.sketch.values
        check.check(delivered.update, announced, squared_norm=squared, room=room / present)

    def _present(self, held: Held, ues: Sequence[int]) -> float:
        """The share of the announced mean that has been delivered."""
        weight = {ue: self._experiment.weight(n) for ue, n in _samples(held).items()}
        return sum(weight[ue] for ue in ues) / sum(weight.values()) if len(ues) < len(weight) else 1.0

    def _missing_norm(self, held: Held, squared: float) -> float:
        """How large the sketches of UEs may be that have announced and not delivered, beside a mean that has come."""
        ratio = self._experiment.bounds.norm_ratio
        if not ratio:
            return np.inf
        typical = [one.sketch.norm for one in self._planned.values()]
        return float(FAR * ratio * np.sqrt(len(held.sketch.ues)) * max(squared**0.5, float(np.median(typical))))

    def declined(self, side: ParentSide, child: Child) -> None:
        """It holds nothing: it needs the current model."""
        child.asked_again = False
        side.sent.pop(child.number, None)
        side.gathering.forget(child.number)

    def requested(self, side: ParentSide, child: Child) -> None:
        """Send the global model, for whoever visits the edge; what is on its way answers a second request too."""
        if side.model is None:
            raise RefusedError("unexpected", "there is no model yet")
        if child in self._answered:
            return
        sending = side.hub.send_all(side.model.frames(pb.GLOBAL), [child], at_once=1)
        if sending is not None:
            self._answered.add(child)
            sending.add_done_callback(lambda _: self._answered.discard(child))

    def reports_on(self, number: int) -> Collection[int]:
        """All UEs of an edge."""
        return self._reports_on[number]


def _samples(held: Held) -> dict[int, int]:
    """By UE."""
    return dict(zip(held.sketch.ues.tolist(), held.sketch.samples.tolist(), strict=True))


def _note_names(known: dict[int, str], ues: Sequence[int], names: Sequence[str]) -> None:
    """Take note of what an edge calls its UEs; for show alone, and no more than a name each."""
    for ue in ues:
        known.pop(ue, None)
    if len(names) == len(ues):
        known.update({ue: name for ue, name in zip(ues, names, strict=True) if NODE_NAME.fullmatch(name)})


def _noise_norm(work: SharedWork, count: int) -> float:
    """How far the noise of a mean of so many UEs may be off that of its sketch, where UEs have gone in between."""
    private = work.private
    if private is None:
        return 0.0
    usual = private.noise_multiplier * private.clip_norm / count * float(np.sqrt(work.updates.num_travelling))
    return _FAR_NOISE * usual
