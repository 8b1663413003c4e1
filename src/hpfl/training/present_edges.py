"""Planning for the edges that are there: the problem without those that have nobody, and the plan back over all."""

from dataclasses import replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.problem import Plan, RoundProblem


def without_absent(problem: RoundProblem, active: BoolArray | None) -> RoundProblem:
    """The same problem over the active edges (None: all), renumbered; `edge_ids` keep their numbers.

    All UEs are under these.
    """
    if active is None or active.all():
        return problem
    edges = np.flatnonzero(active)
    return replace(
        problem,
        **{
            name: getattr(problem, name)[edges]
            for name in ("edge_gain", "edge_power_w", "edge_noise_w_per_hz", "edge_bits", "importance", "staleness")
        },
        edge_of_ue=np.searchsorted(edges, problem.edge_of_ue),
        sketches=None if problem.sketches is None else problem.sketches[edges],
        renewal_s=None if problem.renewal_s is None else problem.renewal_s[edges],
        edge_ids=tuple(str(edge) for edge in edges),
        trusted=True,
    )


def over_all(plan: Plan, active: BoolArray | None) -> Plan:
    """A plan of the active edges as one of all edges; the others are never scheduled."""
    if active is None or active.all():
        return plan

    def spread(values: FloatArray, absent: float) -> FloatArray:
        everywhere = np.full(active.size, absent)
        everywhere[active] = values
        return everywhere

    scheduled = np.zeros(active.size, dtype=np.bool_)
    scheduled[active] = plan.scheduled
    hears = np.ones(active.size, dtype=np.bool_)
    if plan.hears is not None:
        hears[active] = plan.hears
    return replace(
        plan,
        scheduled=scheduled,
        hears=None if plan.hears is None else hears,
        edge_bandwidth_hz=spread(plan.edge_bandwidth_hz, 0.0),
        edge_upload_s=spread(plan.edge_upload_s, np.nan),
        edge_phase_s=spread(plan.edge_phase_s, np.nan),
        latency_s=spread(plan.latency_s, np.nan),
    )


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
