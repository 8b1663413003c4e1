"""The best set of edges with its bandwidth, and a bound no set can beat: branch and bound over sets and deadlines.

The deadlines are cut into cells with certified lines below every edge's need. Cells whose bound is no better than the
best plan found are dropped, those left are cut finer, and in the last ones edges are taken or barred one by one. All
limits count steps, so that the same problem always gets the same answer. Where the band is shared anew in each phase,
a cell is a box: so long for the UEs' uploads, so long for the backhauls (`boxes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.bandwidth import allocate
from hpfl.planning.boxes import BoxTable, first_boxes, tabulated
from hpfl.planning.hops import hop_seconds, hops_of
from hpfl.planning.knapsack import Bounded, Knapsack, bound_nodes
from hpfl.planning.load import Load, load_of
from hpfl.planning.moves import alternate, descend
from hpfl.planning.nodes import Nodes
from hpfl.planning.problem import Allocation
from hpfl.planning.set_choice import Incumbent, SetChoice
from hpfl.planning.solo import solo_slack_s

EXACT_UP_TO = 20  # edges; beyond, the search may stop at its step limit
_CELLS = 16  # of one hop
_BOXES = 49  # of two hops
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
    hops_s = _first_looks(best)
    high_s = min(high_s, (best.objective + task.values[ceiling].sum()) / task.latency_weight)
    bound = _search(best, hops_s, high_s) if sum(low_s for low_s, _ in hops_s) < high_s else np.inf
    if bound < best.cutoff:  # the search ended early: be no worse than the descent by single moves
        alternate(best)
    return SearchResult(best.best, best.objective, min(best.floor, best.cutoff, bound))


def _first_looks(best: Incumbent) -> list[tuple[float, float]]:
    """Look at the smallest sets; for each hop a time before which no other set is through, and none that sends."""
    task = best.task
    loads = [load_of(hop, task.allowed) for hop in hops_of(task.problem)]
    busy = np.zeros_like(task.allowed)
    for load in loads:
        busy[load.edges] = True
    if not busy.any():
        return [(np.inf, np.inf)]
    quiet = task.allowed & ~busy
    if quiet.sum() >= task.least and not (task.must & ~quiet).any():
        best.look_at(replace(task, allowed=quiet).most_valuable())
    alone_s = [_alone_s(load, task) for load in loads]
    if not task.must.any() and task.least <= 1:
        together_s = np.where(busy, sum(alone_s), np.inf)
        best.look_at(np.arange(busy.size) == np.argmax(together_s <= together_s.min() * (1.0 + 1e-9)))
    must_s = [allocate(hop, task.must).least_latency_s if task.must.any() else 0.0 for hop in hops_of(task.problem)]
    return [_from_s(one_s, busy, least_s) for one_s, least_s in zip(alone_s, must_s, strict=True)]


def _from_s(alone_s: FloatArray, busy: BoolArray, must_s: float) -> tuple[float, float]:
    """When the first set may be through, and the first that sends; one and the same where edges that must send do."""
    from_s = max(float(alone_s[busy].min()), must_s)
    return from_s, from_s if must_s > 0 else float(np.min(alone_s[alone_s > 0], initial=np.inf))


def _alone_s(load: Load, task: SetChoice) -> FloatArray:
    """For each edge a time before which it cannot have this hop over, though it had all of the band; 0 where silent."""
    alone_s = np.zeros(task.allowed.size)
    if load.edges.size:
        alone_s[load.edges] = load.least_s + solo_slack_s(load, task.problem.bandwidth_hz)[0]
    return alone_s


def _search(best: Incumbent, hops_s: list[tuple[float, float]], high_s: float) -> float:
    """Cut the deadlines into cells, finer and finer where a better set may be, then branch; a bound on all of it."""
    task = best.task
    count = _CELLS if len(hops_s) == 1 else _BOXES
    boxes = first_boxes(hops_s, high_s, int(count ** (1.0 / len(hops_s))))
    price = best.scale / task.problem.bandwidth_hz
    sizes = (task.least, task.most)
    nodes = Nodes.roots(len(boxes), task.must, ~task.allowed, sizes=sizes, price=price, tilt=_tilt(best))
    work = 0
    while True:
        allowed = ~np.all(nodes.barred, axis=0)
        table = tabulated(task.problem, allowed, boxes)
        nodes = nodes.decide(np.zeros_like(nodes.taken), ~table.usable)
        nodes = _settle(best, bound_nodes(_knapsack(best, table), nodes, best.cutoff), table)
        boxes = boxes.rows(nodes.cell)
        parts = int(np.clip((count / max(len(nodes), 1)) ** (1.0 / len(hops_s)), 2, 8))
        work += parts * len(nodes) * max(table.num_ues, _SMALL)
        if not len(nodes) or boxes.narrow(_NARROW) or work > _MOST_WORK:
            break
        boxes, parents = boxes.divided(parts)
        nodes = nodes.divided(parents)
    if len(nodes) and task.allowed.sum() > EXACT_UP_TO:
        descend(best, most_moves=_MOST_MOVES)
    return _branch(best, nodes, table)


def _tilt(best: Incumbent) -> float:
    """Log odds between the hops' prices at the best set, which are much as its seconds; 0 where there is one hop."""
    seconds = hop_seconds(best.task.problem, best.best)
    return float(np.log(seconds[0] / seconds[1])) if len(seconds) > 1 and min(seconds) > 0 else 0.0


def _knapsack(best: Incumbent, table: BoxTable) -> Knapsack:
    return Knapsack(
        values=best.task.values,
        ends_cost=best.task.latency_weight * table.corners_s.sum(axis=0),
        ends_hz=table.corners_hz,
        bandwidth_hz=best.task.problem.bandwidth_hz,
        scale=best.scale,
    )


def _settle(best: Incumbent, bounded: Bounded, table: BoxTable) -> Nodes:
    """Look at the sets the bounds suggest, decide what the bounds decide, and drop what cannot be better."""
    keep = bounded.nodes.bound < best.cutoff
    for scheduled, _ in zip(
        _promising(best, np.concatenate([bounded.over[keep], bounded.within[keep]]), table), range(_LOOKS), strict=False
    ):
        best.look_at(scheduled)
    nodes = bounded.nodes.decide(bounded.if_left >= best.cutoff, bounded.if_taken >= best.cutoff)
    nodes = nodes.rows(nodes.bound < best.cutoff)
    decided = (nodes.taken | nodes.barred).all(axis=1)
    for scheduled in _promising(best, nodes.taken[decided], table):
        best.look_at(scheduled)
    return nodes.rows(~decided & (nodes.bound < best.cutoff))


def _promising(best: Incumbent, sets: BoolArray, table: BoxTable) -> Iterator[BoolArray]:
    """The distinct sets that may be better than the best, most promising first."""
    task = best.task
    sets = sets[(sets.sum(axis=1) >= task.least) & (sets.sum(axis=1) <= task.most)]
    if not sets.size:
        return
    latency_s = table.tables.least_latency_s(sets)
    floor = task.latency_weight * latency_s - sets @ task.values
    for index in np.argsort(floor, kind="stable"):
        if floor[index] >= best.cutoff:
            return
        yield sets[index]


def _branch(best: Incumbent, nodes: Nodes, table: BoxTable) -> float:
    """Branch on numbers of edges and on edges, best bounds first; the least bound left when steps run out."""
    knapsack, twins = _knapsack(best, table), _twins(best.task, table)
    limit = np.inf if best.task.allowed.sum() <= EXACT_UP_TO else _MOST_STEPS
    steps = 0
    while len(nodes) and steps < limit:
        order = np.argsort(nodes.bound, kind="stable")
        batch, rest = nodes.rows(order[:_BATCH]), nodes.rows(order[_BATCH:])
        children = batch.children(twins)
        steps += len(children)
        settled = _settle(best, bound_nodes(knapsack, children, best.cutoff), table)
        nodes = Nodes.join(rest.rows(rest.bound < best.cutoff), settled)
    return float(nodes.bound.min(initial=np.inf))


def _twins(task: SetChoice, table: BoxTable) -> IntArray:
    """A number for every edge, the same for edges of the same value and the same need."""
    needs = [row for lines in table.tables.hops for row in (lines.intercept[-1], lines.slope[-1])]
    mantissa, exponent = np.frexp(np.vstack([task.values, *needs]))
    rounded = np.ldexp(np.round(mantissa * 2.0**36), exponent)
    _, number = np.unique(np.vstack([rounded, task.must]), axis=1, return_inverse=True)
    return np.asarray(number.ravel(), dtype=np.int64)
