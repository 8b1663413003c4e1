"""The paper's own planner: Algorithms 1-3 as printed, with only the repairs they cannot run without.

Repairs: the bandwidth formula has its sign and branch set right (docs/errata.md row 1); progressive filling
minimises `O` (row 2); every edge is scored under an allocation that includes it, and the chosen ones are
allocated again (row 4); at most `A` edges, the most important first (row 5); the best-scoring edge uploads where
none passes the threshold (row 6); an edge at the staleness bound uploads (row 7). The per-edge threshold itself
(row 3) stays, though it is not the optimum of P3. Filling fits constant Hz to (C2), so that a plan of `paper` is the
same where the band could be shared anew in each phase; `paper+p4` makes use of that.
"""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import realise
from hpfl.planning.filling import fill_at_equal_speed
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_plans import checked, plan_for_set, plan_with_bandwidth
from hpfl.rng import Stream

_SAME = 1e-9  # of the terms of a score, what filling leaves between edges that end together


def paper(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """Algorithm 3: allocate to all, keep the edges whose importance outweighs their latency, allocate to those."""
    scheduled = _chosen(problem)
    return plan_with_bandwidth(problem, scheduled, fill_at_equal_speed(problem, scheduled), planner="paper"), memory


def paper_with_p4(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """The set of `paper`, with exact bandwidth (P4) in place of Algorithm 2's."""
    return plan_for_set(problem, _chosen(problem), "paper+p4"), memory


def _chosen(problem: RoundProblem) -> BoolArray:
    """The set of Algorithm 3, whose edges are scored under filling at equal speed whatever the spectrum."""
    able = problem.able
    under_all = realise(problem, able, *fill_at_equal_speed(problem, able))
    return checked(problem, edge_scheduling(problem, np.where(able, under_all.latency_s, np.inf)))


def edge_scheduling(problem: RoundProblem, latency_s: FloatArray) -> BoolArray:
    """Algorithm 1: edges with `rho phi g_k >= (1 - rho) O_k`, within the cap, and never nobody."""
    late = np.isinf(latency_s)
    score = np.where(late, -np.inf, problem.values - (1.0 - problem.rho) * np.where(late, 0.0, latency_s))
    passing = np.flatnonzero((score >= 0) & ~problem.must)
    seats = problem.most_edges - int(problem.must.sum())
    scheduled = problem.must.copy()
    scheduled[passing[np.argsort(-problem.importance[passing], kind="stable")[:seats]]] = True
    if not scheduled.any():
        scheduled[_best(score, problem)] = True
    return scheduled


def _best(score: FloatArray, problem: RoundProblem) -> int:
    """The edge of greatest score; of those that differ by rounding alone the most important, then the first.

    Filling ends all edges at one time but for rounding, beside which small importances do not show in a score.
    """
    terms = 2.0 * problem.values - score  # `rho phi g + (1 - rho) O`
    tied = score >= np.max(score) - _SAME * terms[np.argmax(score)]
    return int(np.argmax(np.where(tied, problem.importance, -1.0)))
