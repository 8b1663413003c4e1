"""What an edge makes of what UEs send: checks it, joins updates that were asked for, notes who visits."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from hpfl.deployment.averaging import joined_by
from hpfl.deployment.checks import CheckedSketch, check_sketch, check_update, check_weight
from hpfl.deployment.hub import Child
from hpfl.deployment.node import SharedWork
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Vector, VectorSpec


class FromUes:
    """An edge's own ways with its children."""

    children_are = "UEs"

    def __init__(self, experiment: SharedWork, num_ues: int) -> None:
        self.visitors: set[Child] = set()
        self.visited = asyncio.Event()
        self._announced: Mapping[int, int] = {}
        spec = experiment.spec
        room = {"num_ues": num_ues, "length": spec.length, "bytes_each": spec.dtype.itemsize}
        self._updates = joined_by(experiment.edge_settings, **room)
        self._coding = 0
        self._experiment = experiment

    @property
    def update_spec(self) -> VectorSpec:
        """What a UE's update must look like that was ordered last."""
        return self._experiment.updates.ue_spec(self._coding)

    def admit(self, child: Child) -> None:
        """Whoever has a credible number of samples."""
        if not 1 <= child.hello.num_samples <= self._experiment.bounds.num_samples:
            raise RefusedError("samples", f"{child.hello.num_samples} samples are declared")

    def attached(self, side: ParentSide, child: Child) -> None:
        """Send the current model to a UE that has not computed on it."""
        if child.hello.visitor:
            self.visitors.add(child)
            self.visited.set()
        elif child.number not in side.gathering.held:
            side.hand_out([child])

    def gone(self, side: ParentSide, child: Child) -> None:
        """A UE that has left may be back in time: what it has announced stays."""
        if child.hello.visitor:
            self.visitors.discard(child)

    def checked(self, child: Child, sketch: Any) -> CheckedSketch:
        """A sketch with the samples that the UE has declared."""
        work = self._experiment
        checked = check_sketch(sketch, width=work.sketch_width, bounds=work.bounds, codings=len(work.foretold))
        self._check_samples(checked.weight, checked.num_samples, child.hello.num_samples)
        return checked

    def accept(self, side: ParentSide, number: int, arrival: Arrival) -> None:
        """Add a UE's update if it is sound and comes with the samples that were announced."""
        self._check_samples(arrival.begin.weight, int(arrival.begin.num_samples), self._announced[number])
        update = self._experiment.updates.from_ue(arrival, self._coding)
        check_update(update, self._experiment.bounds)
        self.add(number, update, arrival.begin.weight)
        side.metrics.accepted.inc()

    def begin(self, announced: Mapping[int, int], coding: int) -> None:
        """Begin another round of updates, of UEs that have announced so many samples each, coded by a menu's entry."""
        self._announced, self._coding = announced, coding
        self._updates.restart()

    def add(self, number: int, update: Vector, weight: float) -> None:
        """One more update, in the order of arrival."""
        self._updates.add(update, weight, number)

    def combined(self) -> Vector:
        """What the mean, or the edge's combine rule, makes of what was added, in float64."""
        return self._updates.value()

    def declined(self, side: ParentSide, child: Child) -> None:
        """It is left out of this round."""

    def requested(self, side: ParentSide, child: Child) -> None:
        """A UE visits to ask for the global model."""
        raise RefusedError("unexpected", "a request came that nobody asked for")

    def reports_on(self, number: int) -> Collection[int]:
        """A UE speaks for itself."""
        return {number}

    def _check_samples(self, weight: float, came: int, declared: int) -> None:
        if came != declared:
            raise RefusedError("samples", f"{came} samples came with a message, declared were {declared}")
        wanted = self._experiment.weight(declared)
        check_weight(weight, declared, wanted=wanted, bounds=self._experiment.bounds)
