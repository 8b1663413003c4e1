"""One link: the least bandwidth that sends its bits in time, and how that bandwidth falls as time grows.

A link with `s = p h / N_0` sends `c = z ln 2` nats in `T = T_min (e^y - 1) / y` seconds, where `y = ln(1 + s / b)`
and `T_min = c / s` is the time no bandwidth can beat. With the slack ratio `r = T / T_min - 1` everything follows
from the one root `y(r)` of `(e^y - 1) / y = 1 + r`: `b = s / e` with `e = e^y - 1 = y (1 + r)`. Measuring time by its
slack keeps every digit next to the pole `T = T_min`, where the usual Lambert-W form loses half of them.
"""

from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray

LN2 = float(np.log(2.0))
_SERIES_BELOW = 0.02  # slack ratio under which `e^y - 1 - y` is summed as a series


class LinkCurve(NamedTuple):
    """How a link's least bandwidth falls with its slack ratio `r`: `b / s`, `-d ln b / dr` and `-d ln(-b') / dr`."""

    bandwidth: FloatArray
    decay: FloatArray
    bend: FloatArray


def spectral_nats(slack_ratio: FloatArray) -> FloatArray:
    """The root `y > 0` of `(e^y - 1) / y = 1 + r`: nats per second and Hz at slack ratio `r > 0`."""
    if slack_ratio.size and slack_ratio.min() < _SERIES_BELOW:
        y = _far_from_pole(np.maximum(slack_ratio, _SERIES_BELOW))
        small = slack_ratio < _SERIES_BELOW
        y[small] = _near_pole(slack_ratio[small])
        return y
    return _far_from_pole(slack_ratio)


def _far_from_pole(slack_ratio: FloatArray) -> FloatArray:
    """`y(r)` from an estimate within 0.6%, a third-order step to 8 digits, and Newton's for the rest.

    Every planner spends most of its time here, so arrays are updated in place.
    """
    ratio = 1.0 + slack_ratio
    log_ratio = np.log(ratio)
    y = log_ratio + np.log1p(log_ratio + 0.4 * np.log1p(log_ratio * log_ratio * (1.0 / 2.4)))
    y += _halley_step(y, ratio)
    e = np.expm1(y)
    step = y * ratio
    step -= e
    step /= e + 1.0 - e / y
    y += step
    return y


def _halley_step(y: FloatArray, ratio: FloatArray) -> FloatArray:
    """A third-order step on `ln((e^y - 1) / y) = ln(1 + r)`, whose slope lies between 1/2 and 1."""
    inverse, inverse_e = 1.0 / y, 1.0 / np.expm1(y)
    slope = inverse_e - inverse
    slope += 1.0
    newton = np.log(y * ratio * inverse_e)
    newton /= slope
    bend = inverse * inverse
    bend -= inverse_e * (1.0 + inverse_e)
    bend *= newton
    bend /= slope
    bend *= 0.5
    bend += 1.0
    newton /= bend
    return np.asarray(newton)


def _near_pole(slack_ratio: FloatArray) -> FloatArray:
    """`y(r)` for small `r` by Newton on `r = y/2 + y^2/6 + y^3/24 + ...`, exact in every digit."""
    y = slack_ratio * (2.0 - slack_ratio * (4.0 / 3.0))
    for _ in range(4):
        total = np.ones_like(y)
        slope = np.ones_like(y)
        for n in range(9, 1, -1):
            slope = 1.0 + slope * y * (n / ((n - 1.0) * (n + 1.0)))
            total = 1.0 + total * y / (n + 1.0)
        y = y - (y * total - 2.0 * slack_ratio) / slope
    return y


def link_curve(slack_ratio: FloatArray, nats_cap: FloatArray | None = None) -> LinkCurve:
    """The least bandwidth around slack ratio `r = T / T_min - 1 > 0`, in logarithms so that nothing overflows.

    `nats_cap` is the `y` at which a link's energy budget begins to bind (see `energy_nats`): from there on the best
    power is `E / T`, `y` stays what it is and `b = c / (T y)`.
    """
    y = spectral_nats(slack_ratio)
    if nats_cap is not None:
        return _budgeted_curve(y, slack_ratio, nats_cap)
    e = y * (1.0 + slack_ratio)
    inverse_e = 1.0 / e
    inverse_gap = 1.0 / (e - slack_ratio)
    growth = y * inverse_gap  # dy/dr
    decay = growth * inverse_e
    decay += growth
    bend = decay * e
    bend -= 2.0
    bend *= inverse_gap
    bend -= growth
    bend += decay
    bend += decay
    return LinkCurve(inverse_e, decay, bend)


def _budgeted_curve(y: FloatArray, slack_ratio: FloatArray, nats_cap: FloatArray) -> LinkCurve:
    free = link_curve(slack_ratio)
    inverse = 1.0 / (1.0 + slack_ratio)
    return LinkCurve(
        inverse / np.minimum(y, nats_cap),
        np.where(y < nats_cap, free.decay, inverse),
        np.where(y < nats_cap, free.bend, 2.0 * inverse),
    )


def energy_nats(least_s: FloatArray, power_w: FloatArray, energy_j: FloatArray) -> FloatArray:
    """The `y` at which a budget of `energy_j` for one upload begins to bind; 0 where it can never suffice.

    The rate grows with the power, so the least bandwidth for a deadline `T` uses all the power allowed,
    `p = min(cap, E / T)`. Up to `T = E / cap` that is the cap. Beyond, `T s = E h / N_0` no longer depends on `T`, nor
    does `y`, and `b = c / (T y)`: still convex and decreasing. At the turn the slope jumps from
    `-(b/T) y e^y / (y e^y - e^y + 1)` up to `-b/T`, so `b(T)` is convex throughout, and using all of the time is best.
    Bits arrive at all only if `E h / N_0 > z ln 2`, that is if the turn lies beyond `T_min`.
    """
    turn = (energy_j / power_w - least_s) / least_s
    reachable = np.isfinite(turn) & (turn > 0)
    nats = spectral_nats(np.where(reachable, turn, 1.0))
    return np.where(reachable, nats, np.where(turn > 0, np.inf, 0.0))
