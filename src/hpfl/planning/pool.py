"""How many edges hear and upload, and in how many bits, for the greatest decrease per second (docs/fastest.md).

A pool of `n` of `K` edges that is called round after round leaves out `b = m - g` again and again. Its errors add up
until the curvature holds them, after about `1 / q` rounds: `|b|^2 / 2` a round, however long the step. (A pool that
changes errs anew each time, but in the same steep directions, in which `beta L` is about 1 all along.) Noise of coding
is drawn anew, in all directions alike, and costs `q / 2` of its square. So in units of `|g|^2`

    gain(n) = 1 - q/2 - nu (1/n - 1/K) / 2 - (q/2) v / n

with `nu = sigma^2 / |g|^2` and `v` the variance, over `|g|^2`, that coding adds to one edge's update. What it takes is
the round's uploads and its broadcast to the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.bandwidth import allocate
from hpfl.planning.broadcast import broadcast_seconds
from hpfl.planning.learned import Learned
from hpfl.planning.problem import RoundProblem

_MOST_SIZES = 8  # each is tried with exact bandwidth
_UNKNOWN_SPREAD = 3.0  # of the signal, before anything has arrived
_UNKNOWN_CURVATURE = 0.5


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One way to code: the problem with its bits, and the variance it adds to one edge's update, over the signal."""

    entry: int
    problem: RoundProblem
    noise: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How many edges hear and upload, and how they code."""

    size: int
    way: Coded


def best_choice(ways: Sequence[Coded], order: IntArray, learned: Learned, *, seconds_per_joule: float = 0.0) -> Choice:
    """The size and the coding of the greatest rate; `order` are the edges that may be called, quickest first."""
    sizes = _sizes(order.size)
    rates = np.stack([_rates(way, order, sizes, learned, seconds_per_joule) for way in ways])
    best, column = np.unravel_index(int(np.argmax(rates)), rates.shape)
    return Choice(size=int(sizes[column]), way=ways[best])


def gain(learned: Learned, noise: float, sizes: FloatArray, num_edges: int) -> FloatArray:
    """Decrease over `beta |g|^2` by size; before anything has arrived, with a guess of the spread."""
    spread = _UNKNOWN_SPREAD if learned.noise_scale is None else learned.noise_scale
    q = _UNKNOWN_CURVATURE if learned.noise_scale is None else min(learned.curvature, 1.0)
    left_out = spread * (1.0 / sizes - 1.0 / num_edges)
    return np.asarray(1.0 - 0.5 * q - 0.5 * left_out - 0.5 * q * noise / sizes)


def _rates(way: Coded, order: IntArray, sizes: IntArray, learned: Learned, seconds_per_joule: float) -> FloatArray:
    """Decrease per second by size; a loss counts whole, since a rate would make it smaller the longer it takes."""
    problem, K = way.problem, way.problem.num_edges
    sets = _first(order, sizes, K)
    uploads_s = problem.overhead_s + np.array([allocate(problem, one).round_latency_s for one in sets])
    seconds = uploads_s + _broadcasts_s(problem, sets, sizes, way.entry) + seconds_per_joule * _joules(problem, sets)
    worth = gain(learned, way.noise, sizes.astype(np.float64), K)
    return np.where(worth > 0, worth / seconds, worth)


def _broadcasts_s(problem: RoundProblem, sets: BoolArray, sizes: IntArray, coding: int) -> FloatArray:
    """Seconds until each pool knows of the step of as many updates, if it knew of all steps before; 0 if free."""
    if problem.downlink is None:
        return np.zeros(sizes.size)
    none = np.zeros(problem.num_edges)
    steady = replace(problem.downlink, edge_bits=none, cell_bits=none)
    bits = np.array([steady.step(size, coding) for size in sizes.tolist()])
    return broadcast_seconds(steady, sets, bits, problem.bandwidth_hz)


def _joules(problem: RoundProblem, sets: BoolArray) -> FloatArray:
    """Joules of the UEs under each of many sets: computing, and sending at full power over equal parts of the band."""
    links, B = problem.links, problem.bandwidth_hz
    count = np.maximum(np.bincount(links.edge_of_ue, minlength=links.num_edges), 1)[links.edge_of_ue]
    spent = links.ue_power_w * links.ue_bits * count / (B * np.log2(1.0 + links.ue_snr_hz * count / B))
    if links.compute_j is not None:
        spent = spent + links.compute_j
    return np.asarray(sets @ np.bincount(links.edge_of_ue, weights=spent, minlength=links.num_edges))


def _first(order: IntArray, sizes: IntArray, num_edges: int) -> BoolArray:
    """For each size the set of so many first edges."""
    rank = np.full(num_edges, num_edges)
    rank[order] = np.arange(order.size)
    return np.asarray(rank[None] < sizes[:, None])


def _sizes(most: int) -> IntArray:
    """Numbers of edges to choose between: at least two, for one update alone tells nothing of the spread."""
    least = min(2, most)
    return np.unique(np.geomspace(least, most, min(most, _MOST_SIZES)).round().astype(np.int64))
