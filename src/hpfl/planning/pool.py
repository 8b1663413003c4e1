"""How many edges upload, how many hear, and in how many bits, for the greatest decrease per second (docs/fastest.md).

A set that is called round after round leaves out `b = m - g` again and again, so that errors add up until the curvature
holds them: `|b|^2 / 2` a round, whatever the step. What changes from round to round, the edges called out of a pool that
hears and the noise of coding, costs `q / 2` of its square. So of `n` edges called out of a pool of `N` that hears,

    gain = |g|^2 (1 - q/2) - sigma^2 (1/N - 1/K) / 2 - (q/2) (sigma^2 (1/n - 1/N) + v/n)

with `v` the variance that coding adds to one edge's update; what it takes is the round's uploads and the broadcast.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.planning.bandwidth import allocate
from hpfl.planning.broadcast import Downlink, broadcast_seconds
from hpfl.planning.learned import Learned
from hpfl.planning.problem import RoundProblem

_MOST_SIZES = 8  # each is tried with exact bandwidth
_UNKNOWN_SPREAD = 3.0  # of the signal, before anything has arrived


@dataclass(frozen=True, kw_only=True)
class Choice:
    """`called` edges a round out of `pool` that hear, by the menu's entry `coding`, and its variance `noise`."""

    called: int
    pool: int
    coding: int
    noise: float


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One way to code: the problem with its bits, and the variance it adds to one edge's update over the signal."""

    entry: int
    problem: RoundProblem
    noise: float


def best_choice(ways: Sequence[Coded], order: IntArray, learned: Learned, *, seconds_per_joule: float = 0.0) -> Choice:
    """The numbers of the greatest rate; `order` are the edges that may be called, quickest first."""
    sizes = _sizes(order.size)
    found = [_rates(way, order, sizes, learned, seconds_per_joule) for way in ways]
    best = int(np.argmax([rates.max() for rates in found]))
    row, column = np.unravel_index(int(np.argmax(found[best])), found[best].shape)
    return Choice(
        called=int(sizes[row]),
        pool=int(sizes[column]),
        coding=ways[best].entry,
        noise=ways[best].noise * learned.signal,
    )


def _rates(way: Coded, order: IntArray, sizes: IntArray, learned: Learned, seconds_per_joule: float) -> FloatArray:
    """Decrease per second [n, N], minus infinity where fewer would hear than are called; losses count whole."""
    problem, K = way.problem, way.problem.num_edges
    sets = _first(order, sizes, K)
    uploads_s = problem.overhead_s + np.array([allocate(problem, one).round_latency_s for one in sets])
    price_s = seconds_per_joule * _joules(problem, sets)
    told_s = _broadcasts_s(problem, sets, sizes, way.entry)
    gain = _gain(learned, way.noise, sizes.astype(np.float64), K)
    seconds = (uploads_s + price_s)[:, None] + told_s
    rate = np.where(gain > 0, gain / seconds, gain)
    return np.where(sizes[:, None] <= sizes[None, :], rate, -np.inf)


def _gain(learned: Learned, noise: float, sizes: FloatArray, num_edges: int) -> FloatArray:
    """Decrease over `beta |g|^2` [n, N]; before anything has arrived, of a guess of the spread."""
    spread = _UNKNOWN_SPREAD if learned.noise_scale is None else learned.noise_scale
    q = min(learned.curvature, 1.0) if learned.signal > 0 else 0.5
    called, pool = 1.0 / sizes[:, None], 1.0 / sizes[None, :]
    always = 0.5 * spread * (pool - 1.0 / num_edges)
    anew = 0.5 * q * (spread * (called - pool) + noise * called)
    return np.asarray(1.0 - 0.5 * q - always - anew)


def _broadcasts_s(problem: RoundProblem, sets: BoolArray, sizes: IntArray, coding: int) -> FloatArray:
    """Seconds [n, N] until a pool knows of the step of `n` updates, if it knew of all steps before; 0 if free."""
    if problem.downlink is None:
        return np.zeros((sizes.size, sizes.size))
    steady: Downlink = replace(
        problem.downlink,
        edge_bits=np.zeros_like(problem.downlink.edge_bits),
        cell_bits=np.zeros_like(problem.downlink.cell_bits),
    )
    bits = [steady.step(int(size), coding) for size in sizes]
    known = {step: broadcast_seconds(steady, sets, step, problem.bandwidth_hz) for step in dict.fromkeys(bits)}
    return np.stack([known[step] for step in bits])


def _joules(problem: RoundProblem, sets: BoolArray) -> FloatArray:
    """Joules of the UEs under each of many sets: computing, and sending at full power for an equal part of the band."""
    links = problem.links
    count = np.maximum(np.bincount(links.edge_of_ue, minlength=links.num_edges), 1)[links.edge_of_ue]
    rate = problem.bandwidth_hz / count * np.log2(1.0 + links.ue_snr_hz * count / problem.bandwidth_hz)
    spent = links.ue_power_w * links.ue_bits / rate
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
