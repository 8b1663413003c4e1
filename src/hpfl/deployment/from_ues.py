"""What an edge makes of what UEs send: checks it, joins updates that were asked for, notes who visits."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hpfl.deployment.averaging import joined_by
from hpfl.deployment.checks import CheckedSketch, check_sketch, check_update, check_weight
from hpfl.deployment.counted_samples import counted
from hpfl.deployment.hub import Child
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_sums import SecureSums
from hpfl.deployment.wire import Arrival, Vector, VectorSpec
from hpfl.training.norm_bound import NormBound, scale_of

_NORM_OVER_SKETCH = 3.0
"""How many times its sketch an update may be; chance comes nowhere near it with sketches of sixteen numbers or more."""
_TELLING_WIDTH = 16


class FromUes:
    """An edge's own ways with its children."""

    children_are = "UEs"
    are_parents = False

    def __init__(self, experiment: SharedWork, num_ues: int) -> None:
        self.visitors: set[Child] = set()
        self.visited = asyncio.Event()
        self._announced: Mapping[int, CheckedSketch] = {}
        # what a private cell sends must follow from no UE's norm: updates are clipped anyway
        self._norms = NormBound(experiment.bounds.norm_ratio if experiment.private is None else 0.0)
        self._bound = np.inf
        spec = experiment.spec
        room = {"num_ues": num_ues, "length": spec.length, "bytes_each": spec.dtype.itemsize}
        self._updates = joined_by(experiment.edge_settings, **room)
        self._coding = 0
        self._experiment = experiment
        self.secure: SecureSums | None = None

    @property
    def update_spec(self) -> VectorSpec:
        """What a UE's update must look like that was ordered last."""
        if self.secure is not None:
            return self.secure.format.update_spec
        return self._experiment.updates.ue_spec(self._coding)

    def admit(self, child: Child) -> None:
        """Whoever has a credible number of samples; those of a visitor count nowhere."""
        declared, most = child.hello.num_samples, self._experiment.bounds.num_samples
        if not child.hello.visitor and not 1 <= declared <= most:
            raise RefusedError(
                "samples",
                f"{child.name} declares {declared} samples, wanted 1 to {most}: the most that the experiment deals to "
                "a UE, or limits.num_samples at edges and cloud, where UEs have data of their own",
            )

    def attached(self, side: ParentSide, child: Child) -> None:
        """Send the current model to a UE that has not computed on it."""
        if child.hello.visitor:
            self.visitors.add(child)
            self.visited.set()
            return
        if self.secure is not None:
            self.secure.attached(child)
        if child.number not in side.gathering.held:
            side.hand_out([child])

    def gone(self, side: ParentSide, child: Child) -> None:
        """A UE that has left may be back in time: what it has announced stays."""
        if child.hello.visitor:
            self.visitors.discard(child)
        elif self.secure is not None:
            self.secure.gone(child)

    def checked(self, child: Child, sketch: Any) -> CheckedSketch:
        """A sketch with the samples that the UE has declared; it is said where one began anew."""
        work = self._experiment
        if self.secure is not None:  # it comes without its numbers, which are masked
            checked = check_sketch(sketch, width=0, largest=0.0)
        else:
            largest = work.sketches.largest(work.bounds.update_norm)
            checked = check_sketch(sketch, width=work.sketch_width, largest=largest, codings=len(work.foretold))
        _check_samples(work, checked.weight, checked.num_samples, child.hello.num_samples)
        if checked.anew:  # what it kept is lost, or it comes late
            log("ue began anew", level=logging.WARNING, ue=child.number, name=child.name)
        return checked

    def trusted(self, sketches: Mapping[int, CheckedSketch]) -> dict[int, CheckedSketch]:
        """Sketches as they count beside each other: outliers scaled down, or left out; samples up to a share."""
        bound = self._bound = self._norms.among([sketch.norm for sketch in sketches.values()])
        scales = {ue: scale_of(sketch.norm, bound) for ue, sketch in sketches.items()}
        for ue, scale in scales.items():
            if scale < 1.0:
                what = "scaled down" if scale else "left out of this model"
                log(what, level=logging.WARNING, ue=ue, norm=round(sketches[ue].norm, 6), bound=round(bound, 6))
        chosen = {ue: sketches[ue].scaled(scale) for ue, scale in scales.items() if scale}
        return dict(zip(chosen, _weighed(list(chosen.values()), self._experiment), strict=True))

    def accept(self, side: ParentSide, number: int, arrival: Arrival) -> None:
        """Add a UE's update if it is sound and the one that was announced, with the samples that were."""
        announced = self._announced[number]
        _check_samples(self._experiment, arrival.begin.weight, int(arrival.begin.num_samples), announced.num_samples)
        if self.secure is not None:
            self.secure.take_update(number, arrival.vector().tobytes())
            return
        update = self._experiment.updates.from_ue(arrival, self._coding)
        squared = check_update(update, self._experiment.bounds)
        if announced.scale != 1.0:
            update, squared = update * update.dtype.type(announced.scale), squared * announced.scale**2
        self._check_announced(update, announced, squared)
        self.add(number, update, announced.weight)
        self._norms.accepted(announced.norm)
        side.metrics.accepted.inc()

    def _check_announced(self, update: Vector, announced: CheckedSketch, squared: float) -> None:
        """Refuse another update than the one announced, and one that hides from sketches how large it is."""
        check = self._experiment.sketches
        room = check.coding_room(squared, self._coding, announced.noise)
        check.check(update, announced.values, squared_norm=squared, room=room)
        most = _NORM_OVER_SKETCH * self._bound + room
        if check.width >= _TELLING_WIDTH and squared > most**2:
            raise RefusedError("norm", f"an update of norm {squared**0.5:.4g} came, of the others at most {most:.4g}")

    def begin(self, announced: Mapping[int, CheckedSketch], coding: int) -> None:
        """Begin another round of updates, of UEs that have announced these sketches, coded by a menu's entry."""
        self._announced, self._coding = announced, coding
        self._updates.restart()

    def add(self, number: int, update: Vector, weight: float) -> None:
        """One more update, in the order of arrival."""
        self._updates.add(update, weight, number)

    def combined(self) -> Vector:
        """What the mean, or the edge's combine rule, makes of what was added, in float64."""
        return self._updates.value() if self.secure is None else self.secure.mean

    def declined(self, side: ParentSide, child: Child) -> None:
        """It is left out of this round."""

    def requested(self, side: ParentSide, child: Child) -> None:
        """A UE visits to ask for the global model."""
        raise RefusedError("unexpected", "a request came that nobody asked for")

    def reports_on(self, number: int) -> Collection[int]:
        """A UE speaks for itself."""
        return {number}


def _weighed(sketches: list[CheckedSketch], work: SharedWork) -> list[CheckedSketch]:
    """Sketches with the samples that count of those declared, and the weights that follow."""
    declared, bounds = np.array([sketch.num_samples for sketch in sketches], dtype=np.int64), work.bounds
    each = counted(declared, share=bounds.share, ratio=bounds.sample_ratio).tolist()
    return [replace(one, num_counted=n, weight=work.weight(n)) for one, n in zip(sketches, each, strict=True)]


def _check_samples(work: SharedWork, weight: float, came: int, declared: int) -> None:
    if came != declared:
        raise RefusedError("samples", f"{came} samples came with a message, declared were {declared}")
    check_weight(weight, declared, wanted=work.weight(declared), bounds=work.bounds)
