"""Who hears of the new model after a round: all edges, but for those not worth waiting for yet (docs/fastest.md)."""

import numpy as np

from hpfl.planning.problem import BoolArray, FloatArray, Memory, RoundProblem

_SINCE = "since"


def hearing(
    problem: RoundProblem, scheduled: BoolArray, memory: Memory, *, uploads_s: float
) -> tuple[BoolArray | None, Memory]:
    """The edges that should hear (None: all), and the memory of how long ago each one last did.

    The next round waits for the sketch of every edge that hears. Those are the edges, quickest first, for which the
    sum of seconds since they last heard is greatest per second of that round; an edge that uploads has nothing left to
    send, and one about to reach the staleness bound would have to upload what it has.
    """
    if problem.renewal_s is None:
        return None, memory
    names = problem.edge_ids or tuple(str(edge) for edge in range(problem.num_edges))
    known = memory.get(_SINCE, {})
    since_s = np.array([known.get(name, 0.0) for name in names]) + problem.overhead_s + uploads_s
    due = scheduled | (problem.staleness + 1 >= problem.staleness_bound)
    hears = _worth_waiting_for(problem.renewal_s, since_s, due, uploads_s)
    left_s = np.where(hears, 0.0, since_s).tolist()
    return hears, {**memory, _SINCE: dict(zip(names, left_s, strict=True))}


def _worth_waiting_for(renewal_s: FloatArray, since_s: FloatArray, due: BoolArray, uploads_s: float) -> BoolArray:
    """All edges up to one wait: that of the greatest `sum of since / (wait + uploads)`, and no less than `due` need."""
    order = np.argsort(renewal_s, kind="stable")
    wait_s = renewal_s[order]
    rate = np.cumsum(since_s[order]) / np.maximum(wait_s + uploads_s, 1e-300)
    rate[wait_s < np.max(renewal_s[due], initial=0.0)] = -np.inf
    return np.asarray(renewal_s <= wait_s[int(np.argmax(rate))])
