"""What every edge was doing when: the lines of `timeline.jsonl`, as arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray, IntArray

COMPUTE, UPLOAD, WAITING, BACKHAUL = "compute", "edge_upload", "waiting", "backhaul"
AGGREGATED, BROADCAST, SUPERSEDED, DROPPED = "aggregated", "broadcast", "superseded", "dropped"
NAMES = (COMPUTE, UPLOAD, BACKHAUL, WAITING, AGGREGATED, DROPPED, SUPERSEDED, BROADCAST)
"""In the order in which an edge goes through them; the last four are instants, but for a broadcast that takes time."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """One round's stretches and instants, sorted by edge: what, from when to when (s), on which model, how many bits.

    A phase that lasts longer than a round has one stretch in each. `round` counts from 1 as in `rounds.jsonl`;
    `base_round` is the number of rounds that made the model the edge works on, 0 for the initial one.
    """

    round: int
    edge: IntArray
    phase: IntArray
    start_s: FloatArray
    end_s: FloatArray
    base_round: IntArray
    bits: FloatArray

    def rows(self) -> list[dict[str, Any]]:
        """Plain objects, one for each line of `timeline.jsonl`."""
        columns = (self.edge, self.phase, self.start_s, self.end_s, self.base_round, self.bits)
        return [
            {
                "round": self.round,
                "edge": edge,
                "phase": NAMES[phase],
                "start_s": start_s,
                "end_s": end_s,
                "base_round": base_round,
                "bits": bits,
            }
            for edge, phase, start_s, end_s, base_round, bits in zip(*(c.tolist() for c in columns), strict=True)
        ]


def instants(name: str, edges: BoolArray, at_s: float, base_round: IntArray) -> dict[str, NDArray[Any]]:
    """Columns for something that happens to `edges` at one moment."""
    return lasting(name, edges, (at_s, at_s), base_round, np.zeros(edges.size))


def lasting(
    name: str, edges: BoolArray, span_s: tuple[float, float], base_round: IntArray, bits: FloatArray
) -> dict[str, NDArray[Any]]:
    """Columns for something that `edges` do from one moment to another, all of them alike."""
    edge = np.flatnonzero(edges)
    return {
        "edge": edge,
        "phase": np.full(edge.size, NAMES.index(name)),
        "start_s": np.full(edge.size, span_s[0]),
        "end_s": np.full(edge.size, span_s[1]),
        "base_round": base_round[edge],
        "bits": bits[edge],
    }


def joined(round_number: int, parts: list[dict[str, NDArray[Any]]]) -> Phases:
    """All parts in one table, edge by edge and in order of time; equal times in the order of `NAMES`."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["phase"], columns["end_s"], columns["start_s"], columns["edge"]))
    return Phases(round=round_number, **{name: values[order] for name, values in columns.items()})


def spent_s(phases: Phases, edges: BoolArray) -> dict[str, float]:
    """Seconds by phase of the one of `edges` that was last to send, 0 without any.

    Access lasts from computing until the backhaul begins, with whatever wait there is before it.
    """
    compute, upload, backhaul = (NAMES.index(name) for name in (COMPUTE, UPLOAD, BACKHAUL))
    at_work = edges[phases.edge] & np.isin(phases.phase, (compute, upload, backhaul))
    if not at_work.any():
        return {"compute_s": 0.0, "access_s": 0.0, "backhaul_s": 0.0}
    own = at_work & (phases.edge == phases.edge[np.argmax(np.where(at_work, phases.end_s, -np.inf))])
    whole_s = float(phases.end_s[own].max() - phases.start_s[own].min())
    lasted_s = np.where(own, phases.end_s - phases.start_s, 0.0)
    compute_s, backhaul_s = (float(lasted_s[phases.phase == one].sum()) for one in (compute, backhaul))
    return {"compute_s": compute_s, "access_s": whole_s - compute_s - backhaul_s, "backhaul_s": backhaul_s}


def columns_of(phases: Phases) -> dict[str, NDArray[Any]]:
    """The columns of a table, to join it with others."""
    return {name: value for name, value in vars(phases).items() if name != "round"}
