"""The least bandwidth with which each edge meets a deadline, and a straight line below it that certifies it.

For edge k, `D_k(O) = min over g + h = O - least_s of sum_i b_i(g) + b_0(h)` is convex and decreasing. At any split the
tangent planes of the convex `b` give `D_k(X') >= hz + A g + C h - max(A, C) X'` for every slack `X'`, where `A` and `C`
are minus the slopes in `g` and `h`; at the best split `A = C` and the line touches.
"""

from typing import NamedTuple, TypeVar

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.load import Load, Need, need_at

_Parts = TypeVar("_Parts", "Split", Need)

_MOST_STEPS = 40
_MOST_STEPS_WITH_JUMPS = 6
_MOST_HALVINGS = 200
_LONGEST_STEP = 2.5  # in ln(g / h)


class Split(NamedTuple):
    """Edges at a slack: the Hz needed, its share `ln(g / h)`, and the certifying line in the slack, `a - m X'`."""

    hz: FloatArray
    logit: FloatArray
    slope: FloatArray
    intercept: FloatArray


def slacks(load: Load, slack_s: FloatArray, logit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`g` and `h` with `g + h = slack_s` and `ln(g / h) = logit`; all of it to the only phase with traffic."""
    odds = np.exp(logit)
    backhaul_slack_s = slack_s / (1.0 + odds)
    phase_slack_s = backhaul_slack_s * odds
    if load.plain:
        return phase_slack_s, backhaul_slack_s
    return (
        np.where(load.has_backhaul, np.where(load.has_ues, phase_slack_s, 0.0), slack_s),
        np.where(load.has_ues, np.where(load.has_backhaul, backhaul_slack_s, 0.0), slack_s),
    )


def split_at(load: Load, slack_s: FloatArray, logit: FloatArray) -> tuple[Split, Need]:
    """Hz and certifying line of every edge at a given split, with what the next step needs."""
    phase_slack_s, backhaul_slack_s = slacks(load, slack_s, logit)
    found = need_at(load, phase_slack_s, backhaul_slack_s)
    intercept = found.hz + found.phase_slope * phase_slack_s + found.backhaul_slope * backhaul_slack_s
    return Split(found.hz, logit, np.maximum(found.phase_slope, found.backhaul_slope), intercept), found


def mismatch(found: Need) -> FloatArray:
    """`ln(A / C)`: 0 at the best split, positive where the UE phase wants more of the slack."""
    return np.log(found.phase_slope / found.backhaul_slope)


def logit_step(found: Need, slack_s: FloatArray, logit: FloatArray, log_growth: FloatArray | float) -> FloatArray:
    """Newton's next `ln(g / h)` when the slack grows by `exp(log_growth)`; nearly exact, as `A ~ 1 / g^2`."""
    phase = 1.0 / (1.0 + np.exp(-logit))
    backhaul = 1.0 / (1.0 + np.exp(logit))
    drift = (found.backhaul_bend * backhaul - found.phase_bend * phase) * (log_growth * slack_s)
    step = (mismatch(found) + drift) / ((found.phase_bend + found.backhaul_bend) * slack_s * (phase * backhaul))
    return logit + np.minimum(np.maximum(step, -_LONGEST_STEP), _LONGEST_STEP)


def best_split(load: Load, slack_s: FloatArray, logit: FloatArray, *, tolerance: float = 1e-9) -> Split:
    """`D_k` of every edge at its slack, from a first guess of the splits (leading axes batch)."""
    for _ in range(_MOST_STEPS if load.nats_cap is None else _MOST_STEPS_WITH_JUMPS):
        split, found = split_at(load, slack_s, logit)
        if np.abs(mismatch(found)).max(initial=0.0) <= tolerance:
            return split
        logit = logit_step(found, slack_s, logit, 0.0)
    return _bracketed(load, slack_s, np.clip(logit, -100.0, 100.0), tolerance)


def _bracketed(load: Load, slack_s: FloatArray, logit: FloatArray, tolerance: float) -> Split:
    """`D_k` by halving, for links whose slope jumps where their energy budget begins to bind."""
    below, below_need = _beyond(load, slack_s, logit, -1.0)
    above, above_need = _beyond(load, slack_s, logit, 1.0)
    for step in range(_MOST_HALVINGS):
        split, found = split_at(load, slack_s, logit)
        off = mismatch(found)
        below, below_need = _choose(off > 0, split, below), _choose(off > 0, found, below_need)
        above, above_need = _choose(off > 0, above, split), _choose(off > 0, above_need, found)
        narrow = above.logit - below.logit <= 1e-14 * (1.0 + np.abs(logit))
        if (narrow | (np.abs(off) <= tolerance)).all():
            break
        logit = logit_step(found, slack_s, logit, 0.0)
        inside = (logit > below.logit) & (logit < above.logit) & (step % 3 > 0)
        logit = np.where(inside, logit, 0.5 * (below.logit + above.logit))
    return _blend(below, below_need, above, above_need)


def _beyond(load: Load, slack_s: FloatArray, logit: FloatArray, side: float) -> tuple[Split, Need]:
    """Splits surely on one side of the best: near the guess where that will do, at the end of the range elsewhere."""
    near = logit + 0.25 * side
    _, found = split_at(load, slack_s, near)
    return split_at(load, slack_s, np.where(side * mismatch(found) < 0, near, 150.0 * side))


def _choose(condition: BoolArray, one: _Parts, other: _Parts) -> _Parts:
    return type(one)(*(np.where(condition, a, b) for a, b in zip(one, other, strict=True)))


def _blend(below: Split, below_need: Need, above: Split, above_need: Need) -> Split:
    """The better of two splits around the best, with the mean of their planes that is as steep in `g` as in `h`."""
    excess = below_need.phase_slope - below_need.backhaul_slope
    lack = above_need.backhaul_slope - above_need.phase_slope
    weight = np.where(excess + lack > 0, lack / np.where(excess + lack > 0, excess + lack, 1.0), 0.5)
    slope = weight * below_need.phase_slope + (1.0 - weight) * above_need.phase_slope
    intercept = weight * below.intercept + (1.0 - weight) * above.intercept
    first = below.hz <= above.hz
    return Split(np.where(first, below.hz, above.hz), np.where(first, below.logit, above.logit), slope, intercept)
