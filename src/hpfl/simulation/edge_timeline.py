"""From the marks of an interval to the stretches of time each edge spent computing, uploading, sending and waiting."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.problem import Plan
from hpfl.training.clock import Progress
from hpfl.training.phases import BACKHAUL, COMPUTE, NAMES, UPLOAD, WAITING, Phases, columns_of, joined
from hpfl.training.state import TrainState


def stretches(state: TrainState, plan: Plan, progress: Progress, active: BoolArray) -> Phases:
    """What the active edges did from the plan to the aggregation, without gaps or overlaps.

    An edge computes until the first of its UEs can transmit (all have computed, where it was not called), uploads until
    its phase ends, waits until its backhaul begins, sends on it until it is settled, and waits for the rest.
    """
    marks, end_s, called = progress.marks, progress.latency_s, plan.scheduled & active
    computed_s = np.minimum(marks.computed_s, end_s)
    delivered_s = np.clip(np.where(called, marks.delivered_s, computed_s), computed_s, end_s)
    sending_s = np.clip(np.where(called, marks.sending_s, computed_s), delivered_s, end_s)
    settled_s = np.clip(np.where(called, marks.settled_s, computed_s), delivered_s, end_s)
    sending_s = np.minimum(sending_s, settled_s)
    zero, none = np.zeros(called.size), np.zeros(called.size)
    last_s = np.full(called.size, end_s)
    parts = [
        _part(COMPUTE, state, (zero, computed_s), none, active),
        _part(UPLOAD, state, (computed_s, delivered_s), marks.ue_bits, called),
        _part(WAITING, state, (delivered_s, sending_s), none, called),
        _part(BACKHAUL, state, (sending_s, settled_s), marks.edge_bits, called),
        _part(WAITING, state, (settled_s, last_s), none, active),
    ]
    return joined(state.round + 1, parts)


def with_sketching(state: TrainState, phases: Phases, spent_s: float, active: BoolArray) -> Phases:
    """The phases after a time before the plan, in which edges with a new model computed and sent their sketches."""
    starts = active & (state.base_round == state.round)
    none, begin_s, end_s = np.zeros(active.size), np.zeros(active.size), np.full(active.size, spent_s)
    parts = [
        _part(COMPUTE, state, (begin_s, end_s), none, starts),
        _part(WAITING, state, (begin_s, end_s), none, active & ~starts),
        columns_of(phases),
    ]
    return joined(phases.round, parts)


def _part(
    name: str, state: TrainState, span_s: tuple[FloatArray, FloatArray], bits: FloatArray, edges: BoolArray
) -> dict[str, NDArray[Any]]:
    start_s, end_s = span_s
    edge = np.flatnonzero(edges & (end_s > start_s))
    return {
        "edge": edge,
        "phase": np.full(edge.size, NAMES.index(name)),
        "start_s": state.time_s + start_s[edge],
        "end_s": state.time_s + end_s[edge],
        "base_round": state.base_round[edge],
        "bits": bits[edge],
    }
