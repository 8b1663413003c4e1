"""Straight lines below every edge's least bandwidth `D_k(O)`, tabulated over deadlines: what bounds a joint plan.

Cell j covers the deadlines `starts_s[j] .. ends_s[j]`; its lines touch `D_k` at `points_s[j]` and, as `D_k` is convex,
stay below it everywhere: `D_k(O) >= intercept[j, k] - slope[j, k] O`.
"""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.deadline import starting_logit, starting_work
from hpfl.planning.demand import Split, best_split
from hpfl.planning.load import Load

_LINKS_AT_ONCE = 1 << 14
_BALANCED = 1e-5  # a line this far from touching loses as little


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Certified lines by cell and edge; an edge is `usable` in a cell if it can finish before the cell ends."""

    points_s: FloatArray
    starts_s: FloatArray
    ends_s: FloatArray
    intercept: FloatArray
    slope: FloatArray
    usable: BoolArray
    least_s: FloatArray  # when each edge can finish at the earliest, however much bandwidth it has

    def least_latency_s(self, sets: BoolArray, bandwidth_hz: float) -> FloatArray:
        """For each row of `sets` a time before which it cannot finish, close to exact near a point of the table."""
        chosen = sets.astype(np.float64)
        intercept, slope = chosen @ self.intercept.T, chosen @ self.slope.T
        crossing_s = np.divide(intercept - bandwidth_hz, slope, out=np.zeros_like(slope), where=slope > 0)
        return np.asarray(np.maximum(crossing_s.max(axis=1), np.where(sets, self.least_s, 0.0).max(axis=1)))


def tabulate(load: Load, allowed: BoolArray, cells_s: tuple[FloatArray, FloatArray], *, bandwidth_hz: float) -> Lines:
    """Lines of the allowed edges (those of `load`, and others that have nothing to send) over cells in rising order."""
    starts_s, ends_s = cells_s
    points_s = np.sqrt(starts_s * ends_s)
    points_s[-1:] = ends_s[-1:]
    return tangents(load, allowed, points_s, cells_s=cells_s, bandwidth_hz=bandwidth_hz)


def tangents(
    load: Load, allowed: BoolArray, points_s: FloatArray, *, cells_s: tuple[FloatArray, FloatArray], bandwidth_hz: float
) -> Lines:
    """Lines that touch at the points; the next point's where an edge cannot finish, or is so close to it that its own
    line is too steep to be of use at the end of the cell."""
    starts_s, ends_s = cells_s
    slack_s = points_s[:, None] - load.least_s
    possible = slack_s > 0
    split = _splits(load, np.where(possible, slack_s, points_s[:, None]), bandwidth_hz)
    intercept = np.where(possible, split.intercept + split.slope * load.least_s, 0.0)
    slope = np.where(possible, split.slope, 0.0)
    for cell in range(points_s.size - 2, -1, -1):
        end_hz = intercept[cell : cell + 2] - slope[cell : cell + 2] * ends_s[cell]
        good = possible[cell] & (end_hz[0] >= 0.5 * end_hz[1])
        intercept[cell] = np.where(good, intercept[cell], intercept[cell + 1])
        slope[cell] = np.where(good, slope[cell], slope[cell + 1])
    shape = (points_s.size, allowed.size)
    lines = Lines(
        points_s=points_s,
        starts_s=starts_s,
        ends_s=ends_s,
        intercept=np.zeros(shape),
        slope=np.zeros(shape),
        usable=np.broadcast_to(allowed, shape).copy(),
        least_s=np.zeros(allowed.size),
    )
    lines.least_s[load.edges] = load.least_s
    lines.intercept[:, load.edges] = intercept
    lines.slope[:, load.edges] = slope
    lines.usable[:, load.edges] &= load.least_s < ends_s[:, None]
    return lines


def _splits(load: Load, slack_s: FloatArray, bandwidth_hz: float) -> Split:
    """Best splits at all points, in one batch if small, else point by point, each from the one before."""
    works = starting_work(load, bandwidth_hz)
    if slack_s.shape[0] * load.ues.size <= _LINKS_AT_ONCE:
        return best_split(load, slack_s, starting_logit(load, works, slack_s), tolerance=_BALANCED)
    rows: list[Split] = []
    for row_s in slack_s:
        logit = rows[-1].logit if rows else starting_logit(load, works, row_s)
        rows.append(best_split(load, row_s, logit, tolerance=_BALANCED))
    return Split(*(np.stack(columns) for columns in zip(*rows, strict=True)))
