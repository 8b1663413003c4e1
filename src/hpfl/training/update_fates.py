"""What became of every update in a round: aggregated, superseded by a broadcast, or dropped with its edge."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray
from hpfl.training.phases import (
    AGGREGATED,
    BROADCAST,
    DROPPED,
    SUPERSEDED,
    WAITING,
    columns_of,
    instants,
    joined,
    lasting,
    spent_s,
)
from hpfl.training.state import Heard, Observation, Outcome, TrainState


def chronicle(
    before: TrainState, after: Heard, observation: Observation, outcome: Outcome, replaced: BoolArray
) -> dict[str, Any]:
    """Fields of the round's record: `superseded`, `dropped`, `phases`, and seconds by phase.

    `replaced` marks the edges that received the new model without having been aggregated; an update they had in flight
    is superseded, unless it had been dropped already.
    """
    lost = _marked(outcome.dropped, replaced)
    in_flight = replaced & ~lost & (np.ones_like(lost) if observation.active is None else observation.active)
    dropped = lost | _marked(observation.dropped, replaced)
    fields = {"superseded": _numbers(in_flight), "dropped": _numbers(dropped)}
    if outcome.phases is None:
        return fields
    ended_s = after.state.time_s
    held = before.base_round if observation.base_round is None else observation.base_round
    heard = np.zeros_like(replaced)
    heard[[update.member for update in outcome.arrivals]] = True
    parts = [
        columns_of(outcome.phases),
        instants(AGGREGATED, heard, ended_s, held),
        instants(DROPPED, lost, ended_s, held),
        instants(SUPERSEDED, in_flight, ended_s, held),
        *_told(after, heard | replaced, observation.active),
    ]
    if observation.dropped is not None:
        parts.append(instants(DROPPED, observation.dropped, before.time_s, before.base_round))
    return fields | spent_s(outcome.phases, heard) | {"phases": joined(after.state.round, parts)}


def _told(after: Heard, told: BoolArray, active: BoolArray | None) -> list[dict[str, NDArray[Any]]]:
    """The broadcast: a moment, or where it takes time a stretch, in which the edges that do not hear wait."""
    base_round, began_s = after.state.base_round, after.state.time_s
    if after.hears is None or after.cell_bits is None or not after.seconds:
        return [instants(BROADCAST, told, began_s, base_round)]
    heard, there = told & after.hears, np.ones_like(told) if active is None else active
    span_s = began_s, began_s + after.seconds
    return [
        instants(BROADCAST, told & ~heard, began_s, base_round),
        lasting(BROADCAST, heard, span_s, base_round, after.cell_bits),
        lasting(WAITING, there & ~told, span_s, base_round, np.zeros(told.size)),
    ]


def _marked(mask: BoolArray | None, like: BoolArray) -> BoolArray:
    return np.zeros_like(like) if mask is None else mask


def _numbers(mask: BoolArray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())
