"""The paper's progressive filling (Algorithm 2): edge phase and backhaul of every edge take the same time.

Raising `G_k` and `Tcom_{k,0}` "at the same speed" from zero makes them equal, so every scheduled edge ends at one
`O` with both hops at `O / 2`; an edge with one hop left gives it all of `O`. Only the single number `O` remains, and
the bandwidth all links need for it falls from infinity to zero as it grows. This wastes bandwidth against the exact
allocation, which splits `O` where both hops gain alike.
"""

from typing import NamedTuple

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.link_curve import link_curve
from hpfl.planning.load import Load, Need, load_of, need_at, ue_curve
from hpfl.planning.problem import RoundProblem

_TOLERANCE = 1e-12
_MOST_STEPS = 200
_LONGEST_STEP = 4.0  # in ln(O - earliest): where the curve is flat, Newton would leap out of float64
_WITHIN = 1.0 - 1e-14  # so that no order of summation exceeds the budget


class _Halves(NamedTuple):
    """How both hops' slack grows with `O`: `share * (O - earliest_s)` beyond what they have at `earliest_s`."""

    earliest_s: float
    share: FloatArray
    phase_spare_s: FloatArray
    backhaul_spare_s: FloatArray


def fill_at_equal_speed(problem: RoundProblem, scheduled: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Bandwidth in Hz of every UE and every backhaul when all of `scheduled` end together, each hop taking half."""
    load = load_of(problem, scheduled)
    ue_hz, edge_hz = np.zeros(problem.num_ues), np.zeros(problem.num_edges)
    if load.edges.size:
        halves = _halves(load)
        phase_slack_s, backhaul_slack_s = _fill(load, halves, problem.bandwidth_hz)
        ue_hz[load.ues] = load.ue_snr_hz * ue_curve(load, slice(None), phase_slack_s).bandwidth
        ratio = backhaul_slack_s / load.backhaul_least_s
        edge_hz[load.edges] = load.backhaul_snr_hz * link_curve(ratio).bandwidth
        excess = (ue_hz.sum() + edge_hz.sum()) / (_WITHIN * problem.bandwidth_hz)
        ue_hz, edge_hz = ue_hz / max(excess, 1.0), edge_hz / max(excess, 1.0)
    return ue_hz, edge_hz


def _halves(load: Load) -> _Halves:
    share = np.where(load.has_ues & load.has_backhaul, 0.5, 1.0)
    backhaul_least_s = np.where(load.has_backhaul, load.backhaul_least_s, 0.0)
    earliest_s = float((np.maximum(load.least_phase_s, backhaul_least_s) / share).max())
    return _Halves(
        earliest_s,
        share,
        np.maximum(share * earliest_s - load.least_phase_s, 0.0),
        np.maximum(share * earliest_s - backhaul_least_s, 0.0),
    )


def _fill(load: Load, halves: _Halves, bandwidth_hz: float) -> tuple[FloatArray, FloatArray]:
    """Slack in s of both hops at the `O` where all links together need `bandwidth_hz`.

    Newton on `log need` against `log (O - earliest)`: both where a fade is the limit and where bandwidth is, the need
    falls like one over that distance, so the curve is nearly straight. A bracket guards the bend between.
    """
    low, high, at = -np.inf, np.inf, float(np.log(halves.earliest_s))
    for _ in range(_MOST_STEPS):
        extra_s = float(np.exp(at))
        phase_slack_s = halves.share * extra_s + halves.phase_spare_s
        backhaul_slack_s = halves.share * extra_s + halves.backhaul_spare_s
        found = need_at(load, phase_slack_s, backhaul_slack_s)
        log_excess = float(np.log(found.hz.sum() / bandwidth_hz))
        if abs(log_excess) <= _TOLERANCE or high - low <= 1e-15 * abs(at):
            break
        low, high = (at, high) if log_excess > 0 else (low, at)
        step = log_excess / (extra_s * _decay(found))
        at = _inside(at + float(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)), low, high)
    return phase_slack_s, backhaul_slack_s


def _decay(found: Need) -> float:
    """`-d ln need / dO`; an edge with one hop left has the same slope in both fields and a share of 1."""
    return float(0.5 * (found.phase_slope + found.backhaul_slope).sum() / found.hz.sum())


def _inside(guess: float, low: float, high: float) -> float:
    return guess if low < guess < high or not np.isfinite(high - low) else 0.5 * (low + high)
