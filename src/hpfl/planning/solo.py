"""How early each edge could finish if it had the whole bandwidth to itself."""

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.deadline import ConvergenceError, edge_work, foresee, starting_logit, starting_work
from hpfl.planning.demand import best_split, logit_step, split_at
from hpfl.planning.load import Load

_MOST_STEPS = 200


def solo_slack_s(load: Load, bandwidth_hz: float, *, tolerance: float = 1e-6) -> tuple[FloatArray, FloatArray]:
    """For each edge a slack in which it cannot finish alone and one in which it can, `tolerance` apart."""
    works = starting_work(load, bandwidth_hz)
    slack_s = edge_work(load, works) / bandwidth_hz
    logit = starting_logit(load, works, slack_s)
    low, high = np.zeros_like(slack_s), np.full_like(slack_s, np.inf)
    for _ in range(_MOST_STEPS):
        if load.nats_cap is None:
            split, found = split_at(load, slack_s, logit)
            hz, slope = foresee(split, found)
        else:  # slopes jump, so that the splits must settle first
            split = best_split(load, slack_s, logit)
            hz, slope, found = split.hz, split.slope, None
        low = np.maximum(low, (split.intercept - bandwidth_hz) / split.slope)
        high = np.where(split.hz <= bandwidth_hz, np.minimum(high, slack_s), high)
        if (high - low <= tolerance * low).all():
            return low, high
        hz = hz * (1.0 + 0.1 * tolerance * np.isinf(high))  # end on the side that can be met
        next_s = _next(slack_s, hz / bandwidth_hz, hz / slope, low=low, high=high)
        logit = split.logit if found is None else logit_step(found, slack_s, logit, np.log(next_s / slack_s))
        slack_s = next_s
    raise ConvergenceError(f"solo latency: {int((high - low > tolerance * low).sum())} edges did not settle")


def _next(
    slack_s: FloatArray, load_ratio: FloatArray, decay_s: FloatArray, *, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Newton on `1 / D` inside the bracket, else on `ln D` over `ln x`, else the middle."""
    straight = slack_s + (load_ratio - 1.0) * decay_s
    exponent = np.clip(np.log(load_ratio) * decay_s / slack_s, -4.0, 4.0)
    logarithmic = slack_s * np.exp(exponent)
    middle = np.where(
        np.isinf(high), 4.0 * np.maximum(slack_s, low), np.sqrt(low * np.where(np.isinf(high), 1.0, high))
    )
    middle = np.where(middle > 0, middle, 0.25 * slack_s)
    fallback = np.where((logarithmic > low) & (logarithmic < high), logarithmic, middle)
    return np.where((straight > low) & (straight < high), straight, fallback)
