"""What children hold and what edges deliver, once it has been checked."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hpfl.arrays import BoolArray
from hpfl.deployment.checks import Bounds, CheckedSketch, check_update, check_weight
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, Tag, Vector
from hpfl.training.counted import Counted
from hpfl.training.state import EdgeUpdate

Read = Callable[[Arrival], Vector]
"""Makes an update of a message that came; may refuse it."""

_ANY_COUNT = 2**62  # the samples of each UE have been checked


class NobodyError(RuntimeError):
    """Nobody has answered for longer than one's patience."""


class StoppedError(RuntimeError):
    """A stop was asked for while the cloud was waiting."""


@dataclass(frozen=True)
class Held:
    """What a child has ready: the model its update was computed on, and the update's sketch."""

    tag: Tag
    sketch: CheckedSketch


def num_anew(held: Mapping[int, Held], awaiting: BoolArray) -> int:
    """How many UEs began anew, for they keep nothing of earlier models, at the edges that have a new model."""
    return sum(len(one.sketch.anew) for edge, one in held.items() if awaiting[edge])


@dataclass(frozen=True)
class Delivered:
    """An edge's update; where it came coded, its `message` too."""

    base_round: int
    update: Vector
    weight: float
    squared_norm: float
    ues: list[int]
    ue_seconds: list[float]
    seconds: float
    message: Vector | None = None


def delivered_of(
    arrival: Arrival, held: Held, *, read: Read, bounds: Bounds, weigh: Callable[[int], float], seconds: float
) -> Delivered:
    """An edge's update, if it is finite, not too large, and for UEs and samples that the edge has announced.

    `read` makes the update of what came; `weigh` gives the weight that so many samples have.
    """
    begin = arrival.begin
    ues, ue_seconds = _upload_of(begin)
    samples = dict(zip(held.sketch.ues.tolist(), held.sketch.samples.tolist(), strict=True))
    if not ues or not set(ues) <= set(samples):
        raise RefusedError("identity", f"{arrival.tag.node} delivers for UEs it has not announced")
    total = sum(samples[ue] for ue in ues)
    if begin.num_samples != total:
        raise RefusedError("samples", f"{begin.num_samples} samples came with an update, announced were {total}")
    many = Bounds(update_norm=bounds.update_norm, num_samples=_ANY_COUNT)
    check_weight(begin.weight, total, wanted=weigh(total), bounds=many)
    vector = read(arrival)
    squared, came = check_update(vector, many), arrival.vector()
    message = came if came.dtype == np.uint8 else None
    return Delivered(held.tag.base_round, vector, begin.weight, squared, ues, ue_seconds, seconds, message)


def num_heard(came: Mapping[int, Delivered]) -> int:
    """How many UEs' updates are in what edges have delivered."""
    return sum(len(one.ues) for one in came.values())


def arrivals_of(came: Mapping[int, Delivered], counted: Counted | None) -> tuple[EdgeUpdate, ...]:
    """What edges have delivered as the cloud joins it, in the order of the edges."""
    heard, whole = num_heard(came), {edge: torch.from_numpy(one.update) for edge, one in came.items()}
    return tuple(
        EdgeUpdate(
            member=edge,
            base_round=one.base_round,
            update=whole[edge] if counted is None else counted.of(whole[edge], heard),
            weight=one.weight,
            importance=one.squared_norm,
        )
        for edge, one in sorted(came.items())
    )


def _upload_of(begin: Any) -> tuple[list[int], list[float]]:
    """Whose updates an edge's update holds, and their seconds."""
    if len(begin.ue) != len(begin.took_s) or len(set(begin.ue)) != len(begin.ue):
        raise RefusedError("shape", f"an update lists {len(begin.ue)} UEs and {len(begin.took_s)} times")
    if not all(0.0 <= seconds < math.inf for seconds in begin.took_s):
        raise RefusedError("nonfinite", "an update lists seconds that are undefined, infinite or negative")
    return list(begin.ue), list(begin.took_s)
