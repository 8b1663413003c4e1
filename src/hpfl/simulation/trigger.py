"""When the cloud aggregates: after all the edges it called, or after the first `A` updates."""

from typing import NamedTuple

import numpy as np

from hpfl.arrays import BoolArray, FloatArray


class Firing(NamedTuple):
    """The moment of aggregation (s) and the edges whose upload was settled by then, well or badly."""

    at_s: float
    settled: BoolArray


def after_all(settled_s: FloatArray, called: BoolArray) -> Firing:
    """Trigger `scheduled`: wait until the upload of every edge that was called has arrived or failed."""
    return Firing(float(np.max(settled_s[called], initial=0.0)), called.copy())


def after_first(
    settled_s: FloatArray, called: BoolArray, *, spoilt: BoolArray, must: BoolArray, max_edges: int
) -> Firing:
    """Trigger `first`: as soon as `max_edges` updates are there, or all that can still come, and every `must` edge.

    Uploads settle in order of time, those of one moment in order of the edges' numbers. `spoilt` ones settle without
    an update; from then on one fewer can come. Edges of the same moment after the decisive one stay in flight.
    """
    edges = np.flatnonzero(called & np.isfinite(settled_s))
    order = edges[np.argsort(settled_s[edges], kind="stable")]
    if not order.size:
        return Firing(0.0, np.zeros_like(called))
    there = np.cumsum(~spoilt[order])
    to_come = np.count_nonzero(called) - np.cumsum(spoilt[order])
    owed = np.cumsum(must[order])
    enough = (there >= np.minimum(max_edges, to_come)) & (owed == np.count_nonzero(must & called))
    last = int(np.argmax(enough)) if enough.any() else order.size - 1
    settled = np.zeros_like(called)
    settled[order[: last + 1]] = True
    return Firing(float(settled_s[order[last]]), settled)
