"""What became of every update in a round: aggregated, superseded by a broadcast, or dropped with its edge."""

from typing import Any

import numpy as np

from hpfl.arrays import BoolArray
from hpfl.training.phases import AGGREGATED, BROADCAST, DROPPED, SUPERSEDED, columns_of, instants, joined
from hpfl.training.state import Observation, Outcome, TrainState


def chronicle(
    before: TrainState, after: TrainState, observation: Observation, outcome: Outcome, replaced: BoolArray
) -> dict[str, Any]:
    """Fields of the round's record: `superseded`, `dropped` and `phases`.

    `replaced` marks the edges that received the new model without having been aggregated; an update they had in flight
    is superseded, unless it had been dropped already.
    """
    lost = _marked(outcome.dropped, replaced)
    in_flight = replaced & ~lost & (np.ones_like(lost) if observation.active is None else observation.active)
    dropped = lost | _marked(observation.dropped, replaced)
    fields = {"superseded": _numbers(in_flight), "dropped": _numbers(dropped)}
    if outcome.phases is None:
        return fields
    ended_s = after.time_s
    held = before.base_round if observation.base_round is None else observation.base_round
    heard = np.zeros_like(replaced)
    heard[[update.member for update in outcome.arrivals]] = True
    parts = [
        columns_of(outcome.phases),
        instants(AGGREGATED, heard, ended_s, held),
        instants(DROPPED, lost, ended_s, held),
        instants(SUPERSEDED, in_flight, ended_s, held),
        instants(BROADCAST, heard | replaced, ended_s, after.base_round),
    ]
    if observation.dropped is not None:
        parts.append(instants(DROPPED, observation.dropped, before.time_s, before.base_round))
    return fields | {"phases": joined(after.round, parts)}


def _marked(mask: BoolArray | None, like: BoolArray) -> BoolArray:
    return np.zeros_like(like) if mask is None else mask


def _numbers(mask: BoolArray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())
