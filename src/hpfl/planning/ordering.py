"""Problems whose UEs come in any order: sorted by edge for the planners, and plans back in the order of the caller."""

from dataclasses import replace
from typing import Any

import numpy as np

from hpfl.arrays import IntArray
from hpfl.planning.problem import Plan, RoundProblem

_PROBLEM = ("edge_of_ue", "ue_gain", "ue_power_w", "ue_noise_w_per_hz", "ue_bits", "compute_s", "ue_energy_j")
_PLAN = ("ue_bandwidth_hz", "ue_power_w", "upload_s")


def by_edge(problem: RoundProblem) -> tuple[RoundProblem, IntArray | None]:
    """The same problem with its UEs sorted by edge, and which UE comes where (None: they were sorted)."""
    if problem.is_sorted:
        return problem, None
    order = np.argsort(problem.edge_of_ue, kind="stable")
    arrays = {name: getattr(problem, name) for name in _PROBLEM}
    ids = None if problem.ue_ids is None else tuple(problem.ue_ids[ue] for ue in order.tolist())
    moved: dict[str, Any] = {name: None if array is None else array[order] for name, array in arrays.items()}
    return replace(problem, **moved, ue_ids=ids, trusted=True), order


def as_given(plan: Plan, order: IntArray | None) -> Plan:
    """A plan of sorted UEs, for the UEs in the order they came in."""
    return plan if order is None else with_ues(plan, np.argsort(order, kind="stable"))


def with_ues(plan: Plan, order: IntArray) -> Plan:
    """The same plan, with the UEs in this order."""
    return replace(plan, **{name: getattr(plan, name)[order] for name in _PLAN})
