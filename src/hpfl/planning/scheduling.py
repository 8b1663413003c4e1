"""Which edges upload when every edge's latency is already known: the scheduling subproblem (P3), solved exactly."""

import heapq

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray


def schedule_for_latencies(
    latency_s: FloatArray, value: FloatArray, *, max_edges: int, must: BoolArray, rho: float
) -> BoolArray:
    """Minimise `-sum value + (1 - rho) max latency` over sets with `must` in them, in O(K log K).

    `value` is `rho phi g_k`, what an edge's importance is worth; `latency_s` is `O_k` in seconds and may be
    infinite. At most `max(max_edges, |must|)` edges are chosen and at least one. Edges worth nothing are left out,
    equal objectives go to the shorter round (so latency breaks the ties of `rho = 1`), and an edge that would never
    finish is chosen only when it must be, or when no edge would.
    """
    order = np.lexsort((-value, latency_s))
    least = np.flatnonzero(must) if must.any() else order[:1]
    floor_s = float(latency_s[least].max())
    seats = max_edges - int(must.sum())
    helpful = order[~must[order] & (value[order] > 0) & np.isfinite(latency_s[order])]
    scheduled = must.copy()
    wait_s = np.maximum(latency_s[helpful], floor_s) - floor_s if np.isfinite(floor_s) else 0.0 * value[helpful]
    start = 0.0 if must.any() else float(value[least[0]])  # the fastest edge alone, when nobody must upload
    count = _best_prefix((1.0 - rho) * wait_s, value[helpful], seats=seats, start=start)
    scheduled[_dearest(helpful[:count], value, seats) if count else least] = True
    return scheduled


def _best_prefix(cost: FloatArray, value: FloatArray, *, seats: int, start: float) -> int:
    """How many edges, fastest first, to choose the `seats` dearest from; 0 where none beats `start`.

    `cost` must not decrease: a heap keeps the dearest edges seen so far and their sum.
    """
    best, best_count, total = start, 0, 0.0
    chosen: list[float] = []
    for count, (price, worth) in enumerate(zip(cost.tolist(), value.tolist(), strict=True), start=1):
        if len(chosen) < seats:
            heapq.heappush(chosen, worth)
            total += worth
        elif chosen and worth > chosen[0]:
            total += worth - heapq.heapreplace(chosen, worth)
        if total - price > best:
            best, best_count = total - price, count
    return best_count


def _dearest(edges: IntArray, value: FloatArray, seats: int) -> IntArray:
    """The `seats` edges of most value; among equals those that come first."""
    return edges[np.argsort(-value[edges], kind="stable")[:seats]]
