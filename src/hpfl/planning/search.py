"""The best set of edges with its bandwidth, and a bound no set can beat: branch and bound over sets and deadlines.

The deadlines are cut into cells with certified lines below every edge's need. Cells whose bound is no better than the
best plan found are dropped, those left are cut finer, and in the last ones edges are taken or barred one by one. All
limits count steps, so that the same problem always gets the same answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.bandwidth import allocate
from hpfl.planning.knapsack import Bounded, Knapsack, bound_nodes
from hpfl.planning.lines import Lines, tabulate
from hpfl.planning.load import load_of
from hpfl.planning.moves import alternate, descend
from hpfl.planning.nodes import Nodes
from hpfl.planning.problem import Allocation
from hpfl.planning.set_choice import Incumbent, SetChoice
from hpfl.planning.solo import solo_slack_s

EXACT_UP_TO = 20  # edges; beyond, the search may stop at its step limit
_CELLS = 16
_NARROW = 1.004  # ratio of a cell's ends at which cutting finer gains less than branching
_BATCH = 64
_MOST_STEPS = 4_000
_MOST_MOVES = 50
_MOST_WORK = 50_000_000  # links tabulated
_SMALL = 20_000  # links of a table that costs next to nothing more than a smaller one
_LOOKS = 2  # sets looked at after each round of bounds


@dataclass(frozen=True)
class SearchResult:
    """The best set's allocation, its objective, and a bound on every set's."""

    allocation: Allocation
    objective: float
    lower_bound: float


def solve(task: SetChoice) -> SearchResult:
    """The best set, certified; exact for up to `EXACT_UP_TO` edges."""
    best = Incumbent(task)
    ceiling = task.most_valuable()
    best.look_at(ceiling)
    high_s = best.best.round_latency_s
    low_s = _first_looks(best)
    high_s = min(high_s, (best.objective + task.values[ceiling].sum()) / task.latency_weight)
    bound = _search(best, low_s, high_s) if low_s < high_s else np.inf
    if bound < best.cutoff:  # the search ended early: be no worse than the descent by single moves
        alternate(best)
    return SearchResult(best.best, best.objective, min(best.floor, best.cutoff, bound))


def _first_looks(best: Incumbent) -> float:
    """Look at the smallest sets; a time before which no other set can finish."""
    task = best.task
    load = load_of(task.problem, task.allowed)
    if not load.edges.size:
        return np.inf
    quiet = task.allowed.copy()
    quiet[load.edges] = False
    if quiet.any() and not (task.must & ~quiet).any():
        best.look_at(replace(task, allowed=quiet, least=1).most_valuable())
    low, _ = solo_slack_s(load, task.problem.bandwidth_hz)
    alone_s = load.least_s + low
    if not task.must.any() and task.least <= 1:
        for fastest in np.flatnonzero(alone_s <= alone_s.min() * (1.0 + 1e-9))[:1]:
            best.look_at(np.arange(task.must.size) == load.edges[fastest])
    if task.must.any():
        return max(allocate(task.problem, task.must).least_latency_s, float(alone_s.min()))
    return float(alone_s.min())


def _search(best: Incumbent, low_s: float, high_s: float) -> float:
    """Cut the deadlines into cells, finer and finer where a better set may be, then branch; a bound on all of it."""
    task = best.task
    cells_s = _divide(np.array([low_s]), np.array([high_s]), _CELLS)
    price = best.scale / task.problem.bandwidth_hz
    nodes = Nodes.roots(_CELLS, task.must, ~task.allowed, sizes=(task.least, task.most), price=price)
    work = 0
    while True:
        allowed = ~np.all(nodes.barred, axis=0)
        load = load_of(task.problem, allowed)
        lines = tabulate(load, allowed, cells_s, bandwidth_hz=task.problem.bandwidth_hz)
        nodes = nodes.decide(np.zeros_like(nodes.taken), ~lines.usable)
        nodes = _settle(best, bound_nodes(_knapsack(best, lines), nodes, best.cutoff), lines)
        starts_s, ends_s = lines.starts_s[nodes.cell], lines.ends_s[nodes.cell]
        parts = int(np.clip(_CELLS // max(len(nodes), 1), 2, 8))
        work += parts * len(nodes) * max(load.ues.size, _SMALL)
        if not len(nodes) or (ends_s <= starts_s * _NARROW).all() or work > _MOST_WORK:
            break
        cells_s, nodes = _divide(starts_s, ends_s, parts), nodes.divided(parts)
    if len(nodes) and task.allowed.sum() > EXACT_UP_TO:
        descend(best, most_moves=_MOST_MOVES)
    return _branch(best, nodes, lines)


def _divide(starts_s: FloatArray, ends_s: FloatArray, parts: int) -> tuple[FloatArray, FloatArray]:
    """Cells of equal ratio in place of every cell."""
    marks_s = starts_s[:, None] * (ends_s / starts_s)[:, None] ** (np.arange(parts + 1) / parts)
    marks_s[:, 0], marks_s[:, -1] = starts_s, ends_s
    return marks_s[:, :-1].ravel(), marks_s[:, 1:].ravel()


def _knapsack(best: Incumbent, lines: Lines) -> Knapsack:
    ends_s = np.stack([lines.starts_s, lines.ends_s])
    return Knapsack(
        values=best.task.values,
        ends_cost=best.task.latency_weight * ends_s,
        ends_hz=lines.intercept - lines.slope * ends_s[..., None],
        bandwidth_hz=best.task.problem.bandwidth_hz,
        scale=best.scale,
    )


def _settle(best: Incumbent, bounded: Bounded, lines: Lines) -> Nodes:
    """Look at the sets the bounds suggest, decide what the bounds decide, and drop what cannot be better."""
    keep = bounded.nodes.bound < best.cutoff
    for scheduled, _ in zip(
        _promising(best, np.concatenate([bounded.over[keep], bounded.within[keep]]), lines), range(_LOOKS), strict=False
    ):
        best.look_at(scheduled)
    nodes = bounded.nodes.decide(bounded.if_left >= best.cutoff, bounded.if_taken >= best.cutoff)
    nodes = nodes.rows(nodes.bound < best.cutoff)
    decided = (nodes.taken | nodes.barred).all(axis=1)
    for scheduled in _promising(best, nodes.taken[decided], lines):
        best.look_at(scheduled)
    return nodes.rows(~decided & (nodes.bound < best.cutoff))


def _promising(best: Incumbent, sets: BoolArray, lines: Lines) -> Iterator[BoolArray]:
    """The distinct sets that may be better than the best, most promising first."""
    task = best.task
    sets = sets[(sets.sum(axis=1) >= task.least) & (sets.sum(axis=1) <= task.most)]
    if not sets.size:
        return
    latency_s = lines.least_latency_s(sets, task.problem.bandwidth_hz)
    floor = task.latency_weight * latency_s - sets @ task.values
    for index in np.argsort(floor, kind="stable"):
        if floor[index] >= best.cutoff:
            return
        yield sets[index]


def _branch(best: Incumbent, nodes: Nodes, lines: Lines) -> float:
    """Branch on numbers of edges and on edges, best bounds first; the least bound left when steps run out."""
    knapsack, twins = _knapsack(best, lines), _twins(best.task, lines)
    limit = np.inf if best.task.allowed.sum() <= EXACT_UP_TO else _MOST_STEPS
    steps = 0
    while len(nodes) and steps < limit:
        order = np.argsort(nodes.bound, kind="stable")
        batch, rest = nodes.rows(order[:_BATCH]), nodes.rows(order[_BATCH:])
        children = batch.children(twins)
        steps += len(children)
        settled = _settle(best, bound_nodes(knapsack, children, best.cutoff), lines)
        nodes = Nodes.join(rest.rows(rest.bound < best.cutoff), settled)
    return float(nodes.bound.min(initial=np.inf))


def _twins(task: SetChoice, lines: Lines) -> IntArray:
    """A number for every edge, the same for edges of the same value and the same need."""
    mantissa, exponent = np.frexp(np.vstack([task.values, lines.intercept[-1], lines.slope[-1]]))
    rounded = np.ldexp(np.round(mantissa * 2.0**36), exponent)
    _, number = np.unique(np.vstack([rounded, task.must]), axis=1, return_inverse=True)
    return np.asarray(number.ravel(), dtype=np.int64)
