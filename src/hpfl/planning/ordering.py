"""Problems whose UEs come in any order: sorted by edge for the planners, and plans back in the order of the caller."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.planning.problem import Plan, RoundProblem


def by_edge(problem: RoundProblem) -> tuple[RoundProblem, IntArray | None]:
    """The same problem with its UEs sorted by edge, and which UE comes where (None: they were sorted)."""
    if problem.is_sorted:
        return problem, None
    order = np.argsort(problem.edge_of_ue, kind="stable")
    return problem.of_ues(order), order


def as_given(plan: Plan, order: IntArray | None) -> Plan:
    """A plan of sorted UEs, for the UEs in the order they came in."""
    return plan if order is None else plan.of_ues(np.argsort(order, kind="stable"))
