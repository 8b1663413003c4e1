"""Who hears of the new model after a round: all edges, but for those not worth waiting for yet (docs/fastest-v1.md).

The next round's plan waits for the sketch of every edge that hears. An edge that does not hear keeps the update it has,
which ages; one that has uploaded it has nothing to send until it hears again, and is `spent`.
"""

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.problem import Memory, RoundProblem

_SINCE, _SPENT = "since", "spent"


def spent(problem: RoundProblem, memory: Memory) -> BoolArray:
    """Edges that uploaded and have not heard since; whatever the plans said, an edge of age 0 has heard."""
    names = memory.get(_SPENT, ())
    return np.array([name in names for name in problem.names]) & (problem.staleness > 0)


def hearing(
    problem: RoundProblem, scheduled: BoolArray, memory: Memory, *, uploads_s: float, curvature: float
) -> tuple[BoolArray | None, Memory]:
    """The edges that should hear (None: all), and the memory of how long each was left alone, and who is spent.

    An edge left alone for `tau` rounds has an update that has turned by about `q tau`, and may have none, though one
    round in K should be its: of the K-th part of the time that is its share, about `(q + 1/K) tau` was lost. Quickest
    first, edges hear as long as that is worth more seconds than they take to compute; so do all about to reach the
    staleness bound, which would have to upload something old.
    """
    if problem.renewal_s is None:
        return None, memory
    names, K = problem.names, problem.num_edges
    known = memory.get(_SINCE, {})
    since_s = np.array([known.get(name, 0.0) for name in names]) + problem.overhead_s + uploads_s
    lost_s = (min(curvature, 1.0) + 1.0 / K) / K * since_s * (problem.staleness + 2) / 2.0
    due = problem.staleness + 1 >= problem.staleness_bound
    hears = _worth_waiting_for(problem.renewal_s, lost_s, due)
    alone = scheduled | spent(problem, memory)
    left = {_SINCE: dict(zip(names, np.where(hears, 0.0, since_s).tolist(), strict=True))}
    return hears, {**memory, **left, _SPENT: [name for name, is_so in zip(names, alone & ~hears, strict=True) if is_so]}


def _worth_waiting_for(renewal_s: FloatArray, lost_s: FloatArray, due: BoolArray) -> BoolArray:
    """All edges up to one wait: that of the greatest `sum of lost - wait`, and no less than `due` edges need."""
    order = np.argsort(renewal_s, kind="stable")
    wait_s = renewal_s[order]
    worth_s = np.cumsum(lost_s[order]) - wait_s
    worth_s[wait_s < np.max(renewal_s[due], initial=0.0)] = -np.inf
    return np.asarray(renewal_s <= wait_s[int(np.argmax(worth_s))])
