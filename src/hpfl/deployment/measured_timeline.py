"""What every edge was doing when, as measured: the stretches of a real round for `timeline.jsonl`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.deployment.deliveries import Delivered, Held
from hpfl.training.phases import BACKHAUL, COMPUTE, NAMES, UPLOAD, WAITING, Phases

Stretch = tuple[int, int, float, float, int, float]


@dataclass(frozen=True, kw_only=True)
class RoundTimes:
    """When a round began and when its orders went out (s of the run), how long it took, and how time was scaled.

    `computing_s` is, by edge, the modelled computation after the order, where there is one, and `switch_s` the time
    before which it was not to send; `ue_bits` are those of a UE's uploads and `edge_bits` those of an edge's.
    """

    round: int
    began_s: float
    ordered_s: float
    latency_s: float
    time_scale: float
    computing_s: Mapping[int, float]
    switch_s: Mapping[int, float]
    ue_bits: float
    edge_bits: float


def stretches(times: RoundTimes, held: Mapping[int, Held], called: set[int], came: Mapping[int, Delivered]) -> Phases:
    """Every edge that was there: computing, its UEs' uploads, its own upload, and waiting."""
    rows = [row for edge in sorted(held) for row in _of_edge(times, edge, held[edge], called, came.get(edge))]
    names = ("edge", "phase", "start_s", "end_s", "base_round", "bits")
    kinds = (np.int64, np.int64, np.float64, np.float64, np.int64, np.float64)
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays: dict[str, Any] = {
        name: np.array(column, dtype=kind) for name, column, kind in zip(names, columns, kinds, strict=True)
    }
    return Phases(round=times.round, **arrays)


def _of_edge(times: RoundTimes, edge: int, held: Held, called: set[int], came: Delivered | None) -> Iterator[Stretch]:
    """Stretches one after the other; those without length are left out."""
    end_s = times.ordered_s + times.latency_s
    marks = [(COMPUTE, times.ordered_s, 0.0)]
    if came is not None:
        computed_s = times.ordered_s + times.computing_s.get(edge, 0.0)
        arrived_s = times.ordered_s + came.seconds / times.time_scale
        last_ue_s = min(times.ordered_s + max(came.ue_seconds) / times.time_scale, arrived_s)
        marks = [(COMPUTE, min(computed_s, last_ue_s), 0.0), (UPLOAD, last_ue_s, len(came.ues) * times.ue_bits)]
        switched_s = times.ordered_s + times.switch_s.get(edge, 0.0)
        marks += [(WAITING, min(switched_s, arrived_s), 0.0), (BACKHAUL, arrived_s, times.edge_bits)]
    marks += [(UPLOAD if edge in called and came is None else WAITING, end_s, 0.0)]
    start_s = times.began_s
    for name, until_s, bits in marks:
        if until_s > start_s:
            yield edge, NAMES.index(name), start_s, min(until_s, end_s), held.tag.base_round, bits
            start_s = until_s
