"""Planning for the edges that are there: the problem without those that have nobody, and the plan back over all."""

from dataclasses import replace

import numpy as np

from hpfl.arrays import BoolArray
from hpfl.planning.problem import Plan, RoundProblem
from hpfl.records import spread


def without_absent(problem: RoundProblem, active: BoolArray | None) -> RoundProblem:
    """The same problem over the active edges (None: all), renumbered; `edge_ids` keep their numbers."""
    return problem if active is None or active.all() else problem.of_edges(active)


def over_all(plan: Plan, active: BoolArray | None) -> Plan:
    """A plan of the active edges as one of all edges; the others are never scheduled."""
    return plan if active is None or active.all() else replace(plan, **spread(plan, active))


def nobody(num_edges: int) -> Plan:
    """The plan of a round in which no edge has a UE."""
    edges, ues = np.full(num_edges, np.nan), np.zeros(0)
    return Plan(
        planner="nobody",
        scheduled=np.zeros(num_edges, dtype=np.bool_),
        ue_bandwidth_hz=ues,
        edge_bandwidth_hz=np.zeros(num_edges),
        ue_power_w=ues,
        upload_s=ues,
        edge_upload_s=edges,
        edge_phase_s=edges,
        latency_s=edges,
        round_latency_s=0.0,
        objective=0.0,
        lower_bound=0.0,
        relative_gap=0.0,
    )
