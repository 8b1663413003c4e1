"""The set of edges with the greatest ratio of gain to seconds, by adding, dropping and swapping edges.

Latencies of candidate sets come from a table of lines below every edge's demand, which is within a percent of exact
P4; only the bandwidth of the set that is chosen comes from exact P4. All limits count steps, so that plans repeat.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.bandwidth import allocate
from hpfl.planning.hops import HopLines, hop_seconds, hops_of
from hpfl.planning.lines import Lines, tabulate
from hpfl.planning.load import load_of
from hpfl.planning.problem import RoundProblem
from hpfl.planning.set_choice import SetChoice
from hpfl.planning.solo import solo_slack_s

_CELLS = 16
_PATIENCE = 4  # edges added without improvement before growing a set is given up
_MOST_MOVES = 40
_MOST_SWAPS = 2000
_SHORTEST_S = 1e-9
_MOST_SIZES = 20  # numbers of edges looked at, the fewer the larger
_WINDOWS = 20  # sets of each size whose mean time stands for all

Score = Callable[[BoolArray], FloatArray]
"""From sets [n, K] to what is maximised."""


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """How long a round with each of many sets takes, nearly; `overhead_s` comes on top of every one."""

    tables: HopLines
    overhead_s: float

    def __call__(self, sets: BoolArray) -> FloatArray:
        """Seconds for each row of `sets`."""
        uploads_s = self.tables.least_latency_s(sets) if self.tables.hops else np.zeros(len(sets))
        return np.maximum(self.overhead_s + uploads_s, _SHORTEST_S)


def seconds_of(task: SetChoice) -> Seconds:
    """The table of a round, from the fastest edge alone to all edges together; under phases, one for each hop."""
    problem = task.problem
    longest_s = hop_seconds(problem, allocate(problem, task.allowed))
    made = (_lines(task, hop, high_s) for hop, high_s in zip(hops_of(problem), longest_s, strict=True))
    hops = tuple(lines for lines in made if lines is not None)
    return Seconds(tables=HopLines(hops, problem.bandwidth_hz), overhead_s=problem.overhead_s)


def _lines(task: SetChoice, hop: RoundProblem, high_s: float) -> Lines | None:
    """The table of one hop, which takes `high_s` with all edges; None where nobody has anything to send."""
    load = load_of(hop, task.allowed)
    if not load.edges.size:
        return None
    low_s = float((load.least_s + solo_slack_s(load, hop.bandwidth_hz, tolerance=1e-2)[0]).min())
    marks_s = np.geomspace(low_s, max(high_s, 1.001 * low_s), _CELLS + 1)
    return tabulate(load, task.allowed, (marks_s[:-1], marks_s[1:]), bandwidth_hz=hop.bandwidth_hz)


def typical_seconds(task: SetChoice, seconds: Seconds) -> tuple[FloatArray, FloatArray]:
    """Numbers of edges to choose between, and how long a round with so many takes on average over the edges."""
    least, most = max(task.least, 1), max(task.most, task.least, 1)
    sizes = np.unique(np.geomspace(least, most, min(most - least + 1, _MOST_SIZES)).round().astype(np.int64))
    free = np.flatnonzero(task.allowed & ~task.must)
    starts = np.unique(np.linspace(0, max(free.size - 1, 0), min(free.size, _WINDOWS)).astype(np.int64))
    means = np.empty(sizes.size)
    for index, size in enumerate((sizes - int(task.must.sum())).tolist()):
        sets = np.repeat(task.must[None], max(starts.size, 1), axis=0)
        if size and free.size:
            sets[np.arange(starts.size)[:, None], free[(starts[:, None] + np.arange(size)) % free.size]] = True
        means[index] = seconds(sets).mean()
    return sizes.astype(np.float64), means


def best_set(task: SetChoice, score: Score) -> BoolArray:
    """A set no add, drop or swap improves, grown edge by edge from the `must` edges, or from the best single one."""
    chosen = _grown(task, score)
    best = float(score(chosen[None])[0])
    for _ in range(_MOST_MOVES):
        moves = _neighbours(task, chosen)
        if not len(moves):
            break
        scores = score(moves)
        top = int(np.argmax(scores))
        if not scores[top] > best + 1e-12 * abs(best):
            break
        chosen, best = moves[top], float(scores[top])
    return chosen


def _grown(task: SetChoice, score: Score) -> BoolArray:
    """The best of the sets met when the best edge is added again and again."""
    current = task.must.copy()
    best, best_score, idle = current, -np.inf, 0
    if current.any():
        best_score = float(score(current[None])[0])
    while int(current.sum()) < task.most and idle < _PATIENCE:
        candidates = _with_one_more(task, current)
        if not len(candidates):
            break
        scores = score(candidates)
        top = int(np.argmax(scores))
        current = candidates[top]
        idle += 1
        if scores[top] > best_score or int(current.sum()) <= task.least:
            best, best_score, idle = current, float(scores[top]), 0
    return best


def _with_one_more(task: SetChoice, current: BoolArray) -> BoolArray:
    return _toggled(current, np.flatnonzero(task.allowed & ~current))


def _neighbours(task: SetChoice, chosen: BoolArray) -> BoolArray:
    """All sets one add, one drop or one swap away."""
    free, loose = np.flatnonzero(task.allowed & ~chosen), np.flatnonzero(chosen & ~task.must)
    moves = []
    if int(chosen.sum()) < task.most:
        moves.append(_toggled(chosen, free))
    if int(chosen.sum()) > max(task.least, 1):
        moves.append(_toggled(chosen, loose))
    if 0 < free.size * loose.size <= _MOST_SWAPS:
        swaps = _toggled(chosen, np.repeat(loose, free.size))
        swaps[np.arange(len(swaps)), np.tile(free, loose.size)] = True
        moves.append(swaps)
    return np.concatenate(moves) if moves else np.zeros((0, chosen.size), dtype=np.bool_)


def _toggled(base: BoolArray, edges: IntArray) -> BoolArray:
    sets = np.repeat(base[None], edges.size, axis=0)
    sets[np.arange(edges.size), edges] ^= True
    return sets
