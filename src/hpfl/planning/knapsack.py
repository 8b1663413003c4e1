"""Bounds on the best set of edges within one cell of deadlines: a knapsack with limits on the number of edges.

For a deadline `O` the best set maximises `sum v_k` with `sum D_k(O) <= B`. With a price `p >= 0` per Hz no set does
better than `w O - p B - max over sets of sum (v_k - p D_k(O))`. Below a cell's straight lines that is a minimum of
concave functions of `O`, so its least value over the cell lies at one of the two ends; the price makes it largest.

With two hops that share the band one after the other, a cell is a box of deadlines with four corners, and the best set
must fit twice: `sum A_k(G) <= B` and `sum T_k(T) <= B`. Any mean `l A_k + (1 - l) T_k` of both needs is such a knapsack
again, whose bound holds; that of the best `l` is the bound of the linear relaxation (a price for each hop).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.nodes import Nodes

_NEVER = 1e250
_MOST_PRICES = 40
_TILTS = (1.0, 0.5, 0.25, 0.12)  # steps, in log odds, towards the best mean of two hops' needs


@dataclass(frozen=True, kw_only=True)
class Knapsack:
    """What all nodes share: the Hz of every edge at both ends of every cell, what edges and seconds are worth."""

    values: FloatArray
    ends_cost: FloatArray  # [corners, cells]: the latency's part of the objective at either end
    ends_hz: tuple[FloatArray, ...]  # of every hop [corners, cells, edges]
    bandwidth_hz: float
    scale: float  # objectives are told apart to 1e-8 of this


@dataclass(frozen=True)
class Bounded:
    """Nodes with bounds; per node a set over and one within the budget, and its bound if an edge is left or taken.

    `reached` is the bound that these prices gave, `lean` which hop a tighter one would weigh more.
    """

    nodes: Nodes
    over: BoolArray
    within: BoolArray
    if_left: FloatArray
    if_taken: FloatArray
    reached: FloatArray
    lean: FloatArray


@dataclass(frozen=True)
class _Batch:
    """The nodes' part of the knapsack, by end, node and edge; `offset` puts taken edges first and barred ones last."""

    nodes: Nodes
    values: FloatArray
    cost: FloatArray
    hz: FloatArray
    offset: FloatArray
    bandwidth_hz: float


@dataclass(frozen=True)
class _Ranking:
    """The best sets at a price, by end and node, with the scores at which an edge would leave or enter them."""

    cost: FloatArray
    excess_hz: FloatArray
    chosen: BoolArray
    score: FloatArray
    leave_at: FloatArray
    enter_at: FloatArray


def bound_nodes(knapsack: Knapsack, nodes: Nodes, cutoff: float) -> Bounded:
    """Raise every node's bound by the best prices; a node is left as soon as its bound reaches `cutoff`."""
    bounded = _bound_at(knapsack, nodes, cutoff)
    if len(knapsack.ends_hz) == 1:
        return bounded
    for step in _TILTS:
        open_ = np.flatnonzero(bounded.nodes.bound < cutoff)
        if not open_.size:
            break
        some = bounded.nodes.rows(open_)
        some = replace(some, tilt=some.tilt + step * bounded.lean[open_])
        bounded = _better(bounded, open_, _bound_at(knapsack, some, cutoff))
    return bounded


def _better(one: Bounded, where: IntArray, other: Bounded) -> Bounded:
    """With the tighter of two bounds for the nodes `where`, and what both say of their edges."""
    wins = other.reached > one.reached[where]
    at = where[wins]
    if_left, if_taken = one.if_left.copy(), one.if_taken.copy()
    if_left[where] = np.maximum(if_left[where], other.if_left)
    if_taken[where] = np.maximum(if_taken[where], other.if_taken)
    return Bounded(
        one.nodes.with_rows(at, other.nodes.rows(wins)),
        _put(one.over, at, other.over[wins]),
        _put(one.within, at, other.within[wins]),
        if_left,
        if_taken,
        _put(one.reached, at, other.reached[wins]),
        _put(one.lean, at, other.lean[wins]),
    )


def _put(values: NDArray[Any], at: IntArray, others: NDArray[Any]) -> NDArray[Any]:
    values = values.copy()
    values[at] = others
    return values


def _bound_at(knapsack: Knapsack, nodes: Nodes, cutoff: float) -> Bounded:
    """Bounds at the nodes' tilts between the hops, by the best price of their mean need."""
    batch = _batch(knapsack, nodes)
    price, tolerance = nodes.price, 1e-8 * knapsack.scale
    unknown = np.full(len(nodes), np.nan)
    low = high = np.stack([unknown, unknown, unknown])  # price, cost and slope on either side of the best price
    best_price, best_cost = price, np.full(len(nodes), -np.inf)
    over = within = np.zeros_like(nodes.taken)
    for _ in range(_MOST_PRICES):
        ranking = _rank(batch, price)
        corner = np.argmin(ranking.cost, axis=0)  # that of the cell which sets the bound
        cost, slope = _of_corner(corner, ranking.cost), _of_corner(corner, ranking.excess_hz)
        chosen = _of_corner(corner, ranking.chosen)
        lacks = slope > 0
        low, high = np.where(lacks, (price, cost, slope), low), np.where(lacks, high, (price, cost, slope))
        over, within = np.where(lacks[:, None], chosen, over), np.where(lacks[:, None], within, chosen)
        best_price = np.where(cost > best_cost, price, best_price)
        best_cost = np.maximum(cost, best_cost)
        price, possible = _next_price(low, high, nodes.price)
        going = (best_cost < cutoff) & (possible > best_cost + tolerance)
        if not going.any():
            break
        price = np.where(going, price, best_price)
    ranking = _rank(batch, best_price)
    if_left, if_taken = _flipped(ranking)
    settled = nodes.taken | nodes.barred
    pivot = np.where(settled, -np.inf, np.minimum(if_left, if_taken)).argmax(axis=1)
    sizes = np.minimum(over.sum(axis=1), within.sum(axis=1)), np.maximum(over.sum(axis=1), within.sum(axis=1))
    turn = np.where((sizes[0] >= nodes.least) & (sizes[0] < sizes[1]), sizes[0], -1)
    bound = np.maximum(nodes.bound, best_cost)
    bounded = replace(nodes, bound=bound, price=np.maximum(best_price, 1e-6 * nodes.price), pivot=pivot, turn=turn)
    return Bounded(bounded, over, within, if_left, if_taken, best_cost, _lean(knapsack, nodes, ranking))


def _of_corner(corner: IntArray, values: NDArray[Any]) -> NDArray[Any]:
    """The values of each node at its corner."""
    return np.asarray(values[corner, np.arange(corner.size)])


def _lean(knapsack: Knapsack, nodes: Nodes, ranking: _Ranking) -> FloatArray:
    """Which hop's need a tighter bound would weigh more: 1 the first, -1 the second; 0 where there is one."""
    if len(knapsack.ends_hz) == 1:
        return np.zeros(len(nodes))
    corner = np.argmin(ranking.cost, axis=0)
    chosen = _of_corner(corner, ranking.chosen)
    first, second = ((_of_corner(corner, hz[:, nodes.cell]) * chosen).sum(axis=1) for hz in knapsack.ends_hz)
    return np.asarray(np.sign(first - second))


def _batch(knapsack: Knapsack, nodes: Nodes) -> _Batch:
    return _Batch(
        nodes=nodes,
        values=knapsack.values,
        cost=knapsack.ends_cost[:, nodes.cell],
        hz=_tilted(knapsack, nodes),
        offset=np.where(nodes.taken, _NEVER, np.where(nodes.barred, -_NEVER, 0.0)),
        bandwidth_hz=knapsack.bandwidth_hz,
    )


def _tilted(knapsack: Knapsack, nodes: Nodes) -> FloatArray:
    """The need that each node's knapsack counts: of the only hop, or the mean of two at the node's tilt."""
    hz = [ends[:, nodes.cell] for ends in knapsack.ends_hz]
    if len(hz) == 1:
        return hz[0]
    share = 1.0 / (1.0 + np.exp(-nodes.tilt))[:, None]
    return np.asarray(share * hz[0] + (1.0 - share) * hz[1])


def _rank(batch: _Batch, price: FloatArray) -> _Ranking:
    """The sets of greatest total score `v - p D` with as many edges as each node allows."""
    score = batch.values - price[:, None] * batch.hz
    key = score + batch.offset
    order = np.argsort(-key, axis=-1)
    ranked = np.take_along_axis(key, order, axis=-1)
    size = np.clip((ranked > 0).sum(axis=-1), batch.nodes.least, batch.nodes.most)
    places = np.arange(key.shape[-1])
    chosen = np.empty(key.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order, places < size[..., None], axis=-1)
    last = np.take_along_axis(ranked, np.maximum(size - 1, 0)[..., None], axis=-1)[..., 0]
    following = np.take_along_axis(ranked, np.minimum(size, places[-1])[..., None], axis=-1)[..., 0]
    following = np.where(size <= places[-1], following, -_NEVER)
    return _Ranking(
        cost=batch.cost - price * batch.bandwidth_hz - (score * chosen).sum(axis=-1),
        excess_hz=(batch.hz * chosen).sum(axis=-1) - batch.bandwidth_hz,
        chosen=chosen,
        score=score,
        leave_at=np.maximum(np.where(size > batch.nodes.least, 0.0, -_NEVER), following),
        enter_at=np.minimum(np.where(size < batch.nodes.most, 0.0, _NEVER), np.where(size > 0, last, _NEVER)),
    )


def _next_price(low: FloatArray, high: FloatArray, first: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where the tangents on both sides meet, and how high they meet; farther out while one side is unknown."""
    rise = low[2] - high[2]
    meeting = (high[1] - low[1] + low[2] * low[0] - high[2] * high[0]) / np.where(rise > 0, rise, np.nan)
    below = np.where(high[0] > 1e-3 * first, 0.25 * high[0], 0.0)
    price = np.where(np.isnan(low[0]), below, np.where(np.isnan(high[0]), 4.0 * low[0] + 1e-3 * first, meeting))
    possible = np.where(np.isnan(low[0]), high[1] - high[2] * high[0], low[1] + low[2] * (price - low[0]))
    return price, np.where(np.isnan(high[0]), np.inf, possible)


def _flipped(ranking: _Ranking) -> tuple[FloatArray, FloatArray]:
    """Each node's bound if an edge is left out, and if it is taken: what the change costs, at the better end."""
    leaving = np.where(ranking.chosen, ranking.score - ranking.leave_at[..., None], 0.0)
    entering = np.where(ranking.chosen, 0.0, ranking.enter_at[..., None] - ranking.score)
    cost = ranking.cost[..., None]
    return (cost + leaving).min(axis=0), (cost + entering).min(axis=0)
