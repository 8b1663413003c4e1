"""Better sets one move away: edges added, dropped or swapped, each scored with exact bandwidth.

Straight lines below every edge's need bound all moves at once; only moves whose bound promises something are allotted
bandwidth, the most promising first.
"""

from collections.abc import Iterator

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.lines import Lines, tangents
from hpfl.planning.load import Load, load_of
from hpfl.planning.set_choice import Incumbent, SetChoice
from hpfl.planning.solo import solo_slack_s

MOST_MOVES = 200
_STARTS = 6
_CANDIDATES = 500  # edges of each side that are considered for a move
_AROUND = np.array([0.5, 0.8, 1.0, 1.25, 2.0])  # deadlines at which lines touch, relative to the current one


def descend(best: Incumbent, *, most_moves: int) -> None:
    """Make the best improving move until there is none, or `most_moves` were made."""
    for _ in range(most_moves):
        if not any(best.look_at(scheduled) for scheduled in _moves(best)):
            return


def alternate(best: Incumbent) -> None:
    """Descend from the best set that takes edges by value per Hz at some deadline."""
    best.look_at(best.task.most_valuable())
    for scheduled in _starts(best.task, best.best.round_latency_s):
        best.look_at(scheduled)
    descend(best, most_moves=MOST_MOVES)


def lines_around(task: SetChoice, latency_s: float) -> Lines:
    """Lines that touch around a deadline, and one so late that every edge has its own."""
    load = load_of(task.problem, task.allowed)
    around_s = latency_s if latency_s > 0 else _earliest_s(load, task.problem.bandwidth_hz)
    late_s = 2.0 * max(float(load.least_s.max(initial=0.0)), 2.0 * around_s)
    points_s = np.append(_AROUND * around_s, late_s)
    return _touching(task, load, points_s)


def _touching(task: SetChoice, load: Load, points_s: FloatArray) -> Lines:
    return tangents(load, task.allowed, points_s, cells_s=(points_s, points_s), bandwidth_hz=task.problem.bandwidth_hz)


def _earliest_s(load: Load, bandwidth_hz: float) -> float:
    """When the fastest edge that has something to send could finish alone."""
    if not load.edges.size:
        return 1.0  # nobody sends: any deadline will do
    return float((load.least_s + solo_slack_s(load, bandwidth_hz)[0]).min())


def _starts(task: SetChoice, latest_s: float) -> list[BoolArray]:
    """At each of several deadlines the best set that takes edges in order of value per Hz, judged by the lines."""
    load = load_of(task.problem, task.allowed)
    earliest_s = _earliest_s(load, task.problem.bandwidth_hz)
    points_s = np.geomspace(earliest_s, max(latest_s, earliest_s), _STARTS)
    lines = _touching(task, load, points_s)
    return [_by_worth(task, lines, float(deadline_s)) for deadline_s in points_s]


def _by_worth(task: SetChoice, lines: Lines, deadline_s: float) -> BoolArray:
    """The best set that takes allowed edges by value per Hz; those too slow for the deadline come last."""
    need_hz = np.maximum(lines.intercept - lines.slope * deadline_s, 0.0).max(axis=0)
    worth = task.values / (need_hz + 1e-9 * task.problem.bandwidth_hz)
    worth = np.where(task.allowed, np.where(lines.least_s < deadline_s, worth, -1.0), -np.inf)
    order = np.argsort(-np.where(task.must, np.inf, worth), kind="stable")[: task.most]
    sums = np.cumsum(lines.intercept[:, order], axis=1), np.cumsum(lines.slope[:, order], axis=1)
    latency_s = np.maximum(_crossing(*sums, task.problem.bandwidth_hz), np.maximum.accumulate(lines.least_s[order]))
    cost = task.latency_weight * latency_s - np.cumsum(task.values[order])
    size = task.least + int(np.argmin(cost[task.least - 1 :]))
    chosen = np.zeros(task.must.size, dtype=np.bool_)
    chosen[order[:size]] = True
    return chosen


def _crossing(intercept: FloatArray, slope: FloatArray, bandwidth_hz: float) -> FloatArray:
    """When lines summed to `intercept - slope O` fall to the budget: the latest over the first axis."""
    crossing_s = np.divide(intercept - bandwidth_hz, slope, out=np.zeros_like(slope), where=slope > 0)
    return np.asarray(np.maximum(crossing_s.max(axis=0), 0.0))


def _moves(best: Incumbent) -> Iterator[BoolArray]:
    """Sets one move away that may be better than the best, most promising first."""
    scheduled = best.best.scheduled
    lines = lines_around(best.task, best.best.round_latency_s)
    leaving, entering = _candidates(best, lines)
    cost = _move_costs(best, lines, leaving, entering)
    for index in np.argsort(cost, axis=None, kind="stable"):
        if cost.flat[index] >= best.cutoff:
            return
        out, into = divmod(int(index), entering.size)
        moved = np.append(scheduled, False)
        moved[leaving[out]], moved[entering[into]] = False, True
        yield moved[:-1]


def _candidates(best: Incumbent, lines: Lines) -> tuple[IntArray, IntArray]:
    """Edges that may leave and may enter, the least and the most worth their Hz; one past the last stands for none."""
    task, scheduled = best.task, best.best.scheduled
    hz = (lines.intercept - lines.slope * best.best.round_latency_s).max(axis=0)
    score = task.values - task.latency_weight * best.best.price_s_per_hz * hz
    leaving, entering = np.flatnonzero(scheduled & ~task.must), np.flatnonzero(task.allowed & ~scheduled)
    leaving = leaving[np.argsort(score[leaving], kind="stable")[:_CANDIDATES]]
    entering = entering[np.argsort(-score[entering], kind="stable")[:_CANDIDATES]]
    return np.append(leaving, score.size), np.append(entering, score.size)


def _move_costs(best: Incumbent, lines: Lines, leaving: IntArray, entering: IntArray) -> FloatArray:
    """A bound on the objective after each move, by edge that leaves and edge that enters; infinite if not allowed."""
    task, scheduled = best.task, best.best.scheduled
    least_s = np.append(lines.least_s, 0.0)
    cost = np.broadcast_to(least_s[entering], (leaving.size, entering.size)).copy()
    for intercept, slope in zip(lines.intercept, lines.slope, strict=True):
        a, m = np.append(intercept, 0.0), np.append(slope, 0.0)
        hz = a[:-1][scheduled].sum() - a[leaving][:, None] + a[entering] - task.problem.bandwidth_hz
        rate = m[:-1][scheduled].sum() - m[leaving][:, None] + m[entering]
        crossing_s = np.divide(hz, rate, out=np.zeros_like(hz), where=rate > 1e-12 * m.max())
        np.maximum(cost, crossing_s, out=cost)
    values = np.append(task.values, 0.0)
    worth = values[:-1][scheduled].sum() - values[leaving][:, None] + values[entering]
    cost = task.latency_weight * cost - worth
    size = int(scheduled.sum())
    cost[-1, :-1] = np.where(size < task.most, cost[-1, :-1], np.inf)
    cost[:-1, -1] = np.where(size > task.least, cost[:-1, -1], np.inf)
    cost[-1, -1] = np.inf
    return np.asarray(cost)
