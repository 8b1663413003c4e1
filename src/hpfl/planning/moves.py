"""Better sets one move away: edges added, dropped or swapped, each scored with exact bandwidth.

Straight lines below every edge's need bound all moves at once; only moves whose bound promises something are allotted
bandwidth, the most promising first.
"""

from collections.abc import Iterator

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.hops import HopLines, hop_seconds, hops_of
from hpfl.planning.lines import Lines, tangents
from hpfl.planning.load import Load, load_of
from hpfl.planning.problem import RoundProblem
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
    for scheduled in _starts(best.task, hop_seconds(best.task.problem, best.best)):
        best.look_at(scheduled)
    descend(best, most_moves=MOST_MOVES)


def tables_around(task: SetChoice, seconds: tuple[float, ...]) -> HopLines:
    """Lines that touch around a deadline of each hop, and one so late that every edge has its own."""
    hops = zip(hops_of(task.problem), seconds, strict=True)
    return HopLines(tuple(_lines_around(task, hop, latency_s) for hop, latency_s in hops), task.problem.bandwidth_hz)


def _lines_around(task: SetChoice, hop: RoundProblem, latency_s: float) -> Lines:
    load = load_of(hop, task.allowed)
    around_s = latency_s if latency_s > 0 else _earliest_s(load, hop.bandwidth_hz)
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


def _starts(task: SetChoice, latest_s: tuple[float, ...]) -> list[BoolArray]:
    """At each of several deadlines the best set that takes edges in order of value per Hz, judged by the lines."""
    made = [_lines_up_to(task, hop, last_s) for hop, last_s in zip(hops_of(task.problem), latest_s, strict=True)]
    return [_by_worth(task, tuple(made), index) for index in range(_STARTS)]


def _lines_up_to(task: SetChoice, hop: RoundProblem, latest_s: float) -> Lines:
    load = load_of(hop, task.allowed)
    earliest_s = _earliest_s(load, hop.bandwidth_hz)
    return _touching(task, load, np.geomspace(earliest_s, max(latest_s, earliest_s), _STARTS))


def _by_worth(task: SetChoice, hops: tuple[Lines, ...], index: int) -> BoolArray:
    """The best set that takes allowed edges by value per Hz; those too slow for the deadlines come last.

    The deadlines are the points `index` of each hop's lines.
    """
    need_hz, in_time = np.zeros(task.values.size), np.ones(task.values.size, dtype=np.bool_)
    for lines in hops:
        deadline_s = float(lines.points_s[index])
        need_hz = need_hz + np.maximum(lines.intercept - lines.slope * deadline_s, 0.0).max(axis=0)
        in_time &= lines.least_s < deadline_s
    worth = task.values / (need_hz + 1e-9 * task.problem.bandwidth_hz)
    worth = np.where(task.allowed, np.where(in_time, worth, -1.0), -np.inf)
    order = np.argsort(-np.where(task.must, np.inf, worth), kind="stable")[: task.most]
    latency_s = sum(_growing_s(lines, order, task.problem.bandwidth_hz) for lines in hops)
    cost = task.latency_weight * latency_s - np.cumsum(task.values[order])
    size = task.least + int(np.argmin(cost[task.least - 1 :]))
    chosen = np.zeros(task.must.size, dtype=np.bool_)
    chosen[order[:size]] = True
    return chosen


def _growing_s(lines: Lines, order: IntArray, bandwidth_hz: float) -> FloatArray:
    """When sets that take one more edge of `order` after the other could finish."""
    sums = np.cumsum(lines.intercept[:, order], axis=1), np.cumsum(lines.slope[:, order], axis=1)
    return np.maximum(_crossing(*sums, bandwidth_hz), np.maximum.accumulate(lines.least_s[order]))


def _crossing(intercept: FloatArray, slope: FloatArray, bandwidth_hz: float) -> FloatArray:
    """When lines summed to `intercept - slope O` fall to the budget: the latest over the first axis."""
    crossing_s = np.divide(intercept - bandwidth_hz, slope, out=np.zeros_like(slope), where=slope > 0)
    return np.asarray(np.maximum(crossing_s.max(axis=0), 0.0))


def _moves(best: Incumbent) -> Iterator[BoolArray]:
    """Sets one move away that may be better than the best, most promising first."""
    scheduled = best.best.scheduled
    tables = tables_around(best.task, hop_seconds(best.task.problem, best.best))
    leaving, entering = _candidates(best, tables)
    cost = _move_costs(best, tables, leaving, entering)
    for index in np.argsort(cost, axis=None, kind="stable"):
        if cost.flat[index] >= best.cutoff:
            return
        out, into = divmod(int(index), entering.size)
        moved = np.append(scheduled, False)
        moved[leaving[out]], moved[entering[into]] = False, True
        yield moved[:-1]


def _candidates(best: Incumbent, tables: HopLines) -> tuple[IntArray, IntArray]:
    """Edges that may leave and may enter, the least and the most worth their Hz; one past the last stands for none."""
    task, scheduled = best.task, best.best.scheduled
    score, price = task.values, task.latency_weight * best.best.price_s_per_hz / len(tables.hops)
    for lines, latency_s in zip(tables.hops, hop_seconds(task.problem, best.best), strict=True):
        score = score - price * (lines.intercept - lines.slope * latency_s).max(axis=0)
    leaving, entering = np.flatnonzero(scheduled & ~task.must), np.flatnonzero(task.allowed & ~scheduled)
    leaving = leaving[np.argsort(score[leaving], kind="stable")[:_CANDIDATES]]
    entering = entering[np.argsort(-score[entering], kind="stable")[:_CANDIDATES]]
    return np.append(leaving, score.size), np.append(entering, score.size)


def _move_costs(best: Incumbent, tables: HopLines, leaving: IntArray, entering: IntArray) -> FloatArray:
    """A bound on the objective after each move, by edge that leaves and edge that enters; infinite if not allowed."""
    task, scheduled = best.task, best.best.scheduled
    seconds = sum(_move_seconds(lines, scheduled, (leaving, entering), tables.bandwidth_hz) for lines in tables.hops)
    values = np.append(task.values, 0.0)
    worth = values[:-1][scheduled].sum() - values[leaving][:, None] + values[entering]
    cost = np.asarray(task.latency_weight * seconds - worth)
    size = int(scheduled.sum())
    cost[-1, :-1] = np.where(size < task.most, cost[-1, :-1], np.inf)
    cost[:-1, -1] = np.where(size > task.least, cost[:-1, -1], np.inf)
    cost[-1, -1] = np.inf
    return cost


def _move_seconds(
    lines: Lines, scheduled: BoolArray, moves: tuple[IntArray, IntArray], bandwidth_hz: float
) -> FloatArray:
    """A time before which one hop cannot be over after each move."""
    leaving, entering = moves
    least_s = np.append(lines.least_s, 0.0)
    seconds = np.broadcast_to(least_s[entering], (leaving.size, entering.size)).copy()
    for intercept, slope in zip(lines.intercept, lines.slope, strict=True):
        a, m = np.append(intercept, 0.0), np.append(slope, 0.0)
        hz = a[:-1][scheduled].sum() - a[leaving][:, None] + a[entering] - bandwidth_hz
        rate = m[:-1][scheduled].sum() - m[leaving][:, None] + m[entering]
        crossing_s = np.divide(hz, rate, out=np.zeros_like(hz), where=rate > 1e-12 * m.max())
        np.maximum(seconds, crossing_s, out=seconds)
    return seconds
