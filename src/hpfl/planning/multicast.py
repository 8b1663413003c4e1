"""The shortest time in which several multicasts, one per cell, are through that share a band: P4 with one link each.

A cell that sends `z` bits to a worst receiver of `s = p h / N_0` needs at least `b(T)` Hz to be through in `T`. All end
together at the `T` with `sum_k b_k(T) = B`. In `ln` of the slack over the least possible time the logarithm of the need
falls with a slope between 0 and -1, so that Newton's steps, kept within a bracket, take some five rounds.
"""

from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.link_curve import LN2, link_curve

CLOSE = 1e-12
"""Relative difference of need and band at which a step has nothing left to gain."""
_MOST_STEPS = 100
_LONGEST_STEP = 4.0  # in the logarithm of the slack
_LEAST_RATIO = 1e-100
_FIT = 3e-12  # kept free of the band, so that a sum in any order stays within it


class OnAir(NamedTuple):
    """Seconds [...] that cells take which share a band, and the Hz of each [..., K]; none for one that is silent."""

    seconds: FloatArray
    hz: FloatArray


def together(bits: FloatArray, snr_hz: FloatArray, bandwidth_hz: float, *, close: float = CLOSE) -> OnAir:
    """When cells [..., K] are through that send `bits` (0: silent) over all of the band, split in the best way.

    The Hz add up to the band but for a relative difference of `close`.
    """
    sends = bits > 0
    safe_hz = np.where(sends, snr_hz, 1.0)
    least_s = np.where(sends, bits * LN2 / safe_hz, 0.0)
    floor_s = least_s.max(axis=-1, initial=0.0)
    slack_s = _slack(least_s, safe_hz, floor_s, bandwidth_hz * (1.0 - _FIT), close)
    seconds = np.where(sends.any(axis=-1), floor_s + slack_s, 0.0)
    return OnAir(seconds, _hz(least_s, safe_hz, floor_s, slack_s)[0])


def _hz(
    least_s: FloatArray, snr_hz: FloatArray, floor_s: FloatArray, slack_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least Hz of every cell with so much slack over the least time of all, and minus their slopes in it."""
    sends = least_s > 0
    safe_s = np.where(sends, least_s, 1.0)
    spare_s = floor_s[..., None] - least_s
    curve = link_curve(np.where(sends, np.maximum((slack_s[..., None] + spare_s) / safe_s, _LEAST_RATIO), 1.0))
    hz = np.where(sends, snr_hz * curve.bandwidth, 0.0)
    return hz, hz * curve.decay / safe_s


def _slack(
    least_s: FloatArray, snr_hz: FloatArray, floor_s: FloatArray, bandwidth_hz: float, close: float
) -> FloatArray:
    """The slack over the least time of all at which the cells need the band exactly."""
    busy = floor_s > 0
    guess = np.log(np.where(busy, _first_slack(least_s, snr_hz, floor_s, bandwidth_hz), 1.0))
    low, high = np.full(guess.shape, -np.inf), np.full(guess.shape, np.inf)
    for _ in range(_MOST_STEPS):
        slack_s = np.exp(guess)
        hz, slope = _hz(least_s, snr_hz, floor_s, slack_s)
        total_hz = np.where(busy, hz.sum(axis=-1), bandwidth_hz)
        excess = np.log(total_hz / bandwidth_hz)
        low, high = np.where(excess > 0, guess, low), np.where(excess > 0, high, guess)
        if (np.abs(excess) <= close).all():
            return np.asarray(slack_s)
        fall = np.where(busy, slope.sum(axis=-1) * slack_s / total_hz, 1.0)
        guess = _inside(guess + np.clip(excess / np.maximum(fall, 1e-300), -_LONGEST_STEP, _LONGEST_STEP), low, high)
        if (np.abs(high - low) <= 1e-14 * (1.0 + np.abs(guess))).all():
            return np.asarray(np.exp(high))
    raise ConvergenceError(f"a broadcast over {bandwidth_hz:g} Hz: no time was found that needs all of the band")


def _first_slack(least_s: FloatArray, snr_hz: FloatArray, floor_s: FloatArray, bandwidth_hz: float) -> FloatArray:
    """About the slack: as if all that send did so at the rate per Hz of an equal part of the band."""
    count = np.maximum(np.count_nonzero(least_s, axis=-1), 1)[..., None]
    nats = np.log1p(snr_hz * (count / bandwidth_hz))
    seconds = (least_s * snr_hz / nats).sum(axis=-1) / bandwidth_hz
    return np.asarray(np.maximum(seconds - floor_s, 1e-3 * seconds))


def _inside(guess: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The guess where it lies within the bracket, else the middle of the bracket."""
    within = (guess > low) & (guess < high)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (low + high)
    return np.where(within | ~np.isfinite(middle), guess, middle)
