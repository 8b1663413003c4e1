"""The earliest common deadline of a set of edges: `sum_k D_k(O) = B`, solved together with every edge's split.

Newton steps on the deadline and all splits at once, guarded by a bracket that is certified at every step: a total need
within the budget shows that the deadline can be met, and the lines below every `D_k` show how early it cannot.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.demand import Split, best_split, logit_step, mismatch, split_at
from hpfl.planning.load import Load, Need

_MOST_STEPS = 60
_MOST_STEPS_WITH_JUMPS = 12
_CLOSE = 1e-11  # relative difference of need and budget at which Newton has nothing left to gain
_BALANCED = 1e-8
_NEARLY_CLOSE, _NEARLY_BALANCED = 5e-5, 5e-4  # a step before that, as it squares what is left
_MOST_GUESSES = 8
_NEAR = 0.003  # relative difference of need and budget within which one step leaves less than 1e-7


class ConvergenceError(ArithmeticError):
    """A search that ended short of its certificate."""


@dataclass(frozen=True)
class Deadline:
    """The end of a search: the slack all edges share, their splits, and a slack no plan can beat.

    Where slopes jump, minus `dD_k / dO` comes with it, since the splits alone do not tell.
    """

    slack_s: float
    logit: FloatArray
    bound_s: float
    slope: FloatArray | None = None


def earliest(load: Load, spare_s: FloatArray, bandwidth_hz: float, *, sure: bool = False) -> Deadline:
    """The least slack `x` with which the edges, having `x + spare_s` each, need no more than `bandwidth_hz`.

    The search ends where the next Newton step, which squares what is left, comes within rounding; that step's point is
    handed back without another look unless `sure`.
    """
    slack_s, logit = _start(load, spare_s, bandwidth_hz)
    low, high = 0.0, np.inf
    close, balanced = (_CLOSE, _BALANCED) if sure else (_NEARLY_CLOSE, _NEARLY_BALANCED)
    for _ in range(_MOST_STEPS if load.nats_cap is None else _MOST_STEPS_WITH_JUMPS):
        edge_slack_s = slack_s + spare_s
        split, found = split_at(load, edge_slack_s, logit)
        total_hz = float(np.add.reduce(split.hz))
        low = max(low, bound_s(split, spare_s, bandwidth_hz))
        high = min(high, slack_s) if total_hz <= bandwidth_hz else high
        unbalanced = float(np.maximum.reduce(np.abs(mismatch(found))))
        next_s = _ahead(foresee(split, found), spare_s, bandwidth_hz, slack_s=slack_s)
        if abs(total_hz - bandwidth_hz) <= close * bandwidth_hz and unbalanced <= balanced:
            growth = np.log((next_s + spare_s) / edge_slack_s)
            return Deadline(next_s, logit_step(found, edge_slack_s, logit, growth), low)
        if not low < next_s < high:
            next_s = next_slack_s(slack_s, total_hz / bandwidth_hz, total_hz / float(split.slope.sum()), (low, high))
        growth = np.log((next_s + spare_s) / edge_slack_s)
        slack_s, logit = next_s, logit_step(found, edge_slack_s, logit, growth)
    return _solve_nested(load, spare_s, bandwidth_hz, slack_s=slack_s, logit=logit)


def _solve_nested(
    load: Load, spare_s: FloatArray, bandwidth_hz: float, *, slack_s: float, logit: FloatArray
) -> Deadline:
    """The same deadline with every split settled at every step: slower, and sure where slopes jump."""
    low, high = 0.0, np.inf
    for _ in range(4 * _MOST_STEPS):
        split = best_split(load, slack_s + spare_s, logit, tolerance=1e-10)
        total_hz, logit = float(split.hz.sum()), split.logit
        low = max(low, bound_s(split, spare_s, bandwidth_hz))
        high = min(high, slack_s) if total_hz <= bandwidth_hz else high
        if abs(total_hz - bandwidth_hz) <= _CLOSE * bandwidth_hz or high * (1.0 - 1e-15) <= low:
            return Deadline(slack_s, logit, low, split.slope)
        slope = float(split.slope.sum())
        slack_s = next_slack_s(slack_s, total_hz / bandwidth_hz, total_hz / slope, (low, high))
    raise ConvergenceError(
        f"bandwidth for {load.edges.size} edges: no deadline needs {bandwidth_hz:g} Hz to within "
        f"{_CLOSE:g}; the slack over the least latency lies between {low:g} and {high:g} s"
    )


class Works(NamedTuple):
    """Rough work of UEs and backhauls in Hz s, as if a link needed `work / slack`."""

    ue: FloatArray
    backhaul: FloatArray


def starting_work(load: Load, bandwidth_hz: float) -> Works:
    """The links' rough work, as if every UE had the same Hz and every backhaul `sqrt(UEs per edge)` times as much."""
    favour = max(load.ues.size / max(load.edges.size, 1), 1.0) ** 0.5
    nominal_hz = bandwidth_hz / max(load.ues.size + load.edges.size * favour, 1.0)
    backhaul_snr_hz = np.where(load.has_backhaul, load.backhaul_snr_hz, 1.0)
    backhaul = link_work(load.backhaul_least_s, backhaul_snr_hz, nominal_hz * favour)
    return Works(link_work(load.ue_least_s, load.ue_snr_hz, nominal_hz), np.where(load.has_backhaul, backhaul, 0.0))


def link_work(least_s: FloatArray, snr_hz: FloatArray, nominal_hz: float) -> FloatArray:
    """`b t` of a link with `nominal_hz`: `c (1 / y - b / s)`, which falls to `c / 2` next to the pole."""
    ratio = snr_hz / nominal_hz
    y = np.log1p(ratio)
    return np.asarray(least_s * snr_hz * np.maximum(1.0 / y - 1.0 / np.maximum(ratio, 1e-3), 0.3 / (1.0 + y)))


def starting_logit(load: Load, works: Works, slack_s: FloatArray) -> FloatArray:
    """Splits `ln(g / h)` for edges of slack `slack_s` (leading axes batch); UEs with time to spare hardly weigh."""
    within = slack_s[..., load.edge_of]
    weight = within / (within + load.spare_s)
    phase = _phase_sum(load, works.ue * weight * weight)
    both = load.has_ues & load.has_backhaul
    return np.asarray(0.5 * np.log(np.where(both, phase, 1.0) / np.where(both, works.backhaul, 1.0)))


def edge_work(load: Load, works: Works) -> FloatArray:
    """Rough work of each edge at its best split, `(sqrt(sum of UEs) + sqrt(backhaul))^2`."""
    return np.asarray((np.sqrt(_phase_sum(load, works.ue)) + np.sqrt(works.backhaul)) ** 2)


def _phase_sum(load: Load, ue: FloatArray) -> FloatArray:
    total = np.zeros((*ue.shape[:-1], load.edges.size))
    total[..., load.fed] = np.add.reduceat(ue, load.starts, axis=-1) if load.fed.size else 0.0
    return total


def _start(load: Load, spare_s: FloatArray, bandwidth_hz: float) -> tuple[float, FloatArray]:
    """A first deadline and first splits, from links that need `work / slack` Hz."""
    works = starting_work(load, bandwidth_hz)
    work = edge_work(load, works)
    slack_s = filling_slack_s(work, spare_s, bandwidth_hz, float(work.sum()) / bandwidth_hz)
    longest_s = float(load.spare_s.max(initial=0.0))
    for _ in range(_MOST_GUESSES):
        if slack_s > 3.0 * longest_s:  # no UE has so much time to spare that it would need less
            break
        before_s, within = slack_s, (slack_s + spare_s)[load.edge_of]
        work = edge_work(load, works._replace(ue=works.ue * (within / (within + load.spare_s))))
        slack_s = filling_slack_s(work, spare_s, bandwidth_hz, slack_s)
        if abs(slack_s - before_s) < 0.2 * before_s:
            break
    return slack_s, starting_logit(load, works, slack_s + spare_s)


def filling_slack_s(work: FloatArray, spare_s: FloatArray, bandwidth_hz: float, slack_s: float) -> float:
    """About the slack with which edges that need `work / slack` Hz fill the budget."""
    for _ in range(_MOST_GUESSES):
        parts = work / (slack_s + spare_s)
        total = float(np.add.reduce(parts))
        step_s = (total / bandwidth_hz - 1.0) * total / float(np.add.reduce(parts / (slack_s + spare_s)))
        slack_s = max(slack_s + step_s, 0.05 * slack_s)
        if abs(step_s) < 0.05 * slack_s:
            break
    return slack_s


def bound_s(split: Split, spare_s: FloatArray, bandwidth_hz: float) -> float:
    """The slack below which the certifying lines together need more than the budget."""
    lines = split.intercept - split.slope * spare_s
    return float((np.add.reduce(lines) - bandwidth_hz) / np.add.reduce(split.slope))


def foresee(split: Split, found: Need) -> tuple[FloatArray, FloatArray]:
    """Each edge's Hz and minus its slope after the coming step of the splits, to second order."""
    curvature = found.phase_slope * found.phase_bend + found.backhaul_slope * found.backhaul_bend
    saved_hz = 0.5 * (found.phase_slope - found.backhaul_slope) ** 2 / curvature
    share = found.backhaul_bend / (found.phase_bend + found.backhaul_bend)
    slope = found.backhaul_slope * np.exp(share * mismatch(found))
    return split.hz - np.minimum(saved_hz, 0.5 * split.hz), slope


def _ahead(ahead: tuple[FloatArray, FloatArray], spare_s: FloatArray, bandwidth_hz: float, *, slack_s: float) -> float:
    """Newton's next slack: on `1 / D` where that is as good as straight, by power laws from farther away."""
    hz = float(np.add.reduce(ahead[0]))
    if abs(hz - bandwidth_hz) > _NEAR * bandwidth_hz:
        return _extrapolate(ahead, spare_s, bandwidth_hz, slack_s=slack_s)
    return slack_s + (hz / bandwidth_hz - 1.0) * hz / float(np.add.reduce(ahead[1]))


def _extrapolate(
    ahead: tuple[FloatArray, FloatArray], spare_s: FloatArray, bandwidth_hz: float, *, slack_s: float
) -> float:
    """The slack that fills the budget if every edge keeps to a power law `D_k ~ X^-q` through its value and slope."""
    (hz, slope), first_s = ahead, slack_s + spare_s
    power = -slope * first_s / hz
    for _ in range(_MOST_GUESSES):
        edge_slack_s = slack_s + spare_s
        parts_hz = hz * (edge_slack_s / first_s) ** power
        ratio = float(np.add.reduce(parts_hz)) / bandwidth_hz
        decay = float(np.add.reduce(parts_hz * power / edge_slack_s)) / bandwidth_hz
        next_s = slack_s - (ratio - 1.0) * ratio / decay
        if abs(next_s - slack_s) <= 1e-4 * abs(ratio - 1.0) * slack_s or abs(ratio - 1.0) < 1e-13:
            return next_s
        slack_s = min(max(next_s, 0.05 * slack_s), 20.0 * slack_s)
    return slack_s


def next_slack_s(slack_s: float, load_ratio: float, decay_s: float, bracket: tuple[float, float]) -> float:
    """Newton on `1 / D`, which is nearly straight; where it leaves the bracket, on `ln D` over `ln x`, or halving."""
    low, high = bracket
    straight = slack_s + (load_ratio - 1.0) * decay_s
    if low < straight < high:
        return straight
    exponent = np.clip(np.log(load_ratio) * decay_s / slack_s, -4.0, 4.0)
    logarithmic = slack_s * float(np.exp(exponent))
    if low < logarithmic < high:
        return logarithmic
    if not np.isfinite(high):
        return 4.0 * max(slack_s, low)
    return float(np.sqrt(low * high)) if low > 0 else 0.25 * high
