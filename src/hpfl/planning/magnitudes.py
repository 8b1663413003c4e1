"""Numbers too far apart for float64: planners refuse them in one sentence, rather than go on with infinities."""

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.link_curve import LN2
from hpfl.planning.problem import Memory, Plan, Planner, RoundProblem
from hpfl.rng import Stream


def within_float64(planner: Callable[..., tuple[Plan, Memory]]) -> Planner:
    """The planner, which raises `ConvergenceError` where a number of its arithmetic leaves the range of float64."""

    @functools.wraps(planner)
    def plan(problem: RoundProblem, memory: Memory, stream: Stream, **options: Any) -> tuple[Plan, Memory]:
        with refused_beyond_float64(problem):
            made, kept = planner(problem, memory, stream, **options)
            if not math.isfinite(made.round_latency_s):
                raise OverflowError("a bandwidth vanished")
        return made, kept

    return plan


@contextmanager
def refused_beyond_float64(problem: RoundProblem) -> Iterator[None]:
    """Any overflow, division by zero or NaN inside ends in a `ConvergenceError` that says what was planned.

    Fields may span 120 decades each, so that products of them, and what a search makes of those, leave float64's 600.
    An infinity that is meant is made where NumPy is told so.
    """
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except (FloatingPointError, OverflowError, ZeroDivisionError) as error:
        raise ConvergenceError(f"numbers too far apart to plan with: {_spread(problem)}") from error


def _spread(problem: RoundProblem) -> str:
    with np.errstate(all="ignore"):
        bits = np.concatenate([problem.ue_bits, problem.edge_bits])
        least_s = bits * LN2 / np.concatenate([problem.ue_snr_hz, problem.edge_snr_hz])
    least_s = least_s[bits > 0]
    needs = (
        f"links that need at least {least_s.min():.1e} to {least_s.max():.1e} s" if least_s.size else "no link sends"
    )
    return f"{needs}, {problem.bandwidth_hz:.1e} Hz, importance up to {problem.importance.max():.1e}"
