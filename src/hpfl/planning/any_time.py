"""How early a set of edges could finish with any bandwidth over time: a bound by area, in Hz s.

The rate is concave in the bandwidth, so a link that has a window of `W` seconds needs no less than the area `W b(W)`,
however its Hz change meanwhile; that falls with `W`. An edge whose round ends at `O` needs no less than

    a_k(O) = min over G of sum_i (G - c_i) b_i(G - c_i) + (O - G) b_{k,0}(O - G),

and the band has `B (O - start)` to give, where `start` is when the first of all links can send. At any split of the
slack the tangent planes of the convex areas give a line below `a_k`, as in `demand`; their sum certifies the bound. The
same holds for some of the edges, which may begin later.
"""

from typing import NamedTuple

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.demand import slacks
from hpfl.planning.link_curve import link_curve
from hpfl.planning.load import Load, load_of, ue_curve
from hpfl.planning.problem import RoundProblem

_MOST_STEPS = 30
_SPLIT_STEPS = 12
_MOST_GAPS = 4
_WIDE = 0.005  # of the round, from which on a gap is worth a look
_CLOSE = 1e-7  # of the seconds, by which another step would raise the bound
_LEAST_RATIO = 1e-100
_TINY = 1e-300


class _Areas(NamedTuple):
    """Hz s of every edge at a split, and minus its slopes in the slack of the UE phase and of the backhaul."""

    area: FloatArray
    phase_slope: FloatArray
    backhaul_slope: FloatArray


def any_time_least_s(problem: RoundProblem, scheduled: BoolArray, from_s: float) -> float:
    """Seconds before which no bandwidth over time lets the set finish; `from_s` is when some plan lets it.

    That of the whole set, or of the edges alone that begin to send later than the others, whichever is more.
    """
    return max(_least_s(problem, some, from_s) for some in (scheduled, *_later(problem, scheduled, from_s)))


def _later(problem: RoundProblem, scheduled: BoolArray, from_s: float) -> list[BoolArray]:
    """The edges that begin to send after the widest gaps between such moments."""
    begin_s = np.full(problem.num_edges, np.inf)
    sends = problem.ue_bits > 0
    np.minimum.at(begin_s, problem.edge_of_ue[sends], problem.compute_s[sends])
    begin_s = np.where(np.isinf(begin_s), 0.0, begin_s)
    moments_s = np.unique(begin_s[scheduled])
    gaps_s = np.diff(moments_s)
    widest = np.argsort(-gaps_s, kind="stable")[:_MOST_GAPS]
    return [scheduled & (begin_s > moments_s[at]) for at in widest.tolist() if gaps_s[at] > _WIDE * from_s]


def _least_s(problem: RoundProblem, scheduled: BoolArray, from_s: float) -> float:
    """The bound by area of one set.

    The need is convex and falls, so that Newton's first step from the right ends before the root, and the next ones
    rise towards it; every one of them is a bound.
    """
    load = load_of(problem, scheduled)
    if not load.edges.size:
        return 0.0
    floor_s = float(load.least_s.max())
    spare_s = floor_s - load.least_s
    start_s = float(problem.compute_s[load.ues].min()) if load.has_ues.all() else 0.0
    slack_s, bound_s, logit = from_s - floor_s, 0.0, np.zeros(load.edges.size)
    for _ in range(_MOST_STEPS):
        if not slack_s > _CLOSE * floor_s:
            break
        area, slope, logit = _lines(load, slack_s + spare_s, logit)
        intercept = float((area - slope * spare_s).sum()) - problem.bandwidth_hz * (floor_s - start_s)
        next_s = intercept / (float(slope.sum()) + problem.bandwidth_hz)
        bound_s = max(bound_s, next_s)
        if abs(next_s - slack_s) <= _CLOSE * (floor_s + bound_s):
            break
        slack_s = max(bound_s, 0.1 * slack_s)
    return min(floor_s + bound_s, from_s)


def _lines(load: Load, slack_s: FloatArray, logit: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lines `a - m X'` below every edge's area for any slack `X'`, nearly touching at `slack_s`; and their splits."""
    steepness = np.full(logit.size, 2.0)  # of the mismatch over the split: a slope falls about as 1 / g^2
    before, off_before = logit, np.zeros_like(logit)
    for step in range(_SPLIT_STEPS):
        phase_s, backhaul_s = slacks(load, slack_s, logit)
        found = _areas(load, phase_s, backhaul_s)
        off = np.log(np.maximum(found.phase_slope, _TINY) / np.maximum(found.backhaul_slope, _TINY))
        if np.abs(off).max() < 1e-4 or step == _SPLIT_STEPS - 1:
            break
        moved = logit - before
        secant = (off_before - off) / np.where(moved == 0, 1.0, moved)
        steepness = np.clip(np.where(np.abs(moved) > 1e-9, secant, steepness), 0.3, 8.0)
        before, off_before = logit, off
        logit = logit + np.clip(off / steepness, -2.0, 2.0)
    intercept = found.area + found.phase_slope * phase_s + found.backhaul_slope * backhaul_s
    return intercept, np.maximum(found.phase_slope, found.backhaul_slope), logit


def _areas(load: Load, phase_s: FloatArray, backhaul_s: FloatArray) -> _Areas:
    area, phase_slope = np.zeros((2, load.edges.size))
    if load.ues.size:
        ratio = np.maximum((phase_s[load.edge_of] + load.spare_s) / load.ue_least_s, _LEAST_RATIO)
        curve = ue_curve(load, slice(None), phase_s)
        each, slope = _area(load.ue_snr_hz * curve.bandwidth, curve.decay, ratio, load.ue_least_s)
        area[load.fed] = np.add.reduceat(each, load.starts)
        phase_slope[load.fed] = np.add.reduceat(slope, load.starts)
    ratio = np.maximum(backhaul_s / load.backhaul_least_s, _LEAST_RATIO)
    curve = link_curve(ratio)
    own, own_slope = _area(load.backhaul_snr_hz * curve.bandwidth, curve.decay, ratio, load.backhaul_least_s)
    return _Areas(
        area + own,
        np.where(load.has_ues, phase_slope, own_slope),
        np.where(load.has_backhaul, own_slope, phase_slope),
    )


def _area(hz: FloatArray, decay: FloatArray, ratio: FloatArray, least_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`W b` of links with windows of `T_min (1 + r)`, and minus its slope in `W`: `-b - W b'`, never negative."""
    return hz * least_s * (1.0 + ratio), np.maximum(hz * ((1.0 + ratio) * decay - 1.0), 0.0)
