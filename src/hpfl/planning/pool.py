"""How many edges hear and upload, and in how many bits each way, for the greatest decrease per second.

A pool of `n` of `K` edges that is called round after round leaves out `b = m - g` again and again. Its errors add up
until the curvature holds them, after about `1 / q` rounds: `|b|^2 / 2` a round, however long the step. (A pool that
changes errs anew each time, but in the same steep directions, in which `beta L` is about 1 all along.) Noise of coding
is drawn anew, in all directions alike, and costs `q / 2` of its square. So with a step `s`, in units of `|g|^2`,

    gain(n) = s - (q/2) s^2 (1 + v/n + w (1 + nu (1/n - 1/K) + v/n)) - (s/2) nu (1/n - 1/K)

with `nu = sigma^2 / |g|^2`, `v` the variance, over `|g|^2`, that coding adds to one edge's update, and `w` that which
the cloud's coding adds to a step, over its square. What it takes is the round's uploads and its broadcast to the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.energy import transmit_j
from hpfl.network.latency import upload_s
from hpfl.planning.bandwidth import allocate
from hpfl.planning.broadcast import broadcast_seconds
from hpfl.planning.learned import Learned
from hpfl.planning.problem import RoundProblem

_MOST_SIZES = 8  # each is tried with exact bandwidth
_SPREAD, _CURVATURE = 3.0, 0.25  # guesses, before anything has arrived
_WORTH_CHANGING = 1.1
_NO_TIME_S = float(np.finfo(np.float64).tiny)  # what takes none counts as taking, so that gains are still compared


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One way to code: the problem with its bits, and what it adds: to one edge's update over the signal, and to a
    step over its square."""

    entry: int
    problem: RoundProblem
    noise: float
    step_noise: float


@dataclass(frozen=True, kw_only=True)
class PoolChoice:
    """How many edges hear and upload, how long a step is, and how uploads and the step are coded."""

    size: int
    step: float
    way: Coded
    down: Coded


def best_choice(
    ways: Sequence[Coded], order: IntArray, learned: Learned, *, seconds_per_joule: float = 0.0, size: int = 0
) -> PoolChoice:
    """The choice of the greatest rate; `order` are the edges that may be called, quickest first.

    A pool of a `size` that it had only grows, as the noise between edges does over the signal when the model improves;
    and only where that promises a tenth more, for what the pool knows others have to be told.
    """
    sizes = _sizes(order.size, size)
    made = [_Rates.of(way, order, sizes, learned, seconds_per_joule) for way in ways]
    told_s = np.stack([made[0].broadcast_s(other) for other in ways])
    rates = np.stack([one.rates(other, took_s) for one in made for other, took_s in zip(ways, told_s, strict=True)])
    rates = rates.reshape(len(ways), len(ways), sizes.size)  # [up, down, size]
    rates[:, :, sizes < size] = -np.inf
    held = rates[:, :, sizes == size]
    if held.size and rates.max() <= _WORTH_CHANGING * held.max():
        rates = np.where(sizes == size, rates, -np.inf)
    up, down, column = (int(place) for place in np.unravel_index(int(np.argmax(rates)), rates.shape))
    step = made[up].steps(ways[down])[column]
    return PoolChoice(size=int(sizes[column]), step=float(step), way=ways[up], down=ways[down])


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """What is known of one way to code uploads, by size: seconds of the uploads, and who would hear."""

    way: Coded
    learned: Learned
    sizes: FloatArray
    sets: BoolArray
    uploads_s: FloatArray

    @staticmethod
    def of(way: Coded, order: IntArray, sizes: IntArray, learned: Learned, seconds_per_joule: float) -> "_Rates":
        problem = way.problem
        sets = _first(order, sizes, problem.num_edges)
        uploads_s = problem.overhead_s + np.array([allocate(problem, one).round_latency_s for one in sets])
        price_s = seconds_per_joule * _joules(problem, sets) if seconds_per_joule else 0.0
        return _Rates(
            way=way, learned=learned, sizes=sizes.astype(np.float64), sets=sets, uploads_s=uploads_s + price_s
        )

    def rates(self, other: Coded, told_s: FloatArray) -> FloatArray:
        """Decrease per second, with a step coded by `other`; a loss counts whole: a rate would make it smaller."""
        seconds = np.maximum(self.uploads_s + told_s, _NO_TIME_S)
        worth = self._gain(other)
        return np.where(worth > 0, worth / seconds, worth)

    def steps(self, other: Coded) -> FloatArray:
        """The step's scale by size."""
        return self._known.longest(self._noise(other))

    @property
    def _known(self) -> Learned:
        """What is known, or before anything has arrived a guess."""
        return self.learned if self.learned.signal > 0 else Learned(signal=1.0, spread=_SPREAD, curvature=_CURVATURE)

    @property
    def _left_out(self) -> FloatArray:
        """`nu (1/n - 1/K)`."""
        scale = self._known.noise_scale or 0.0
        return np.asarray(scale * (1.0 / self.sizes - 1.0 / self.way.problem.num_edges))

    def _noise(self, other: Coded) -> FloatArray:
        """What coding adds to a step, over the signal."""
        up = self.way.noise / self.sizes
        forwarded = (self.sizes == 1) | (self.way.problem.downlink is None)
        return np.asarray(up + np.where(forwarded, 0.0, other.step_noise * (1.0 + self._left_out + up)))

    def _gain(self, other: Coded) -> FloatArray:
        """Decrease over `beta |g|^2`."""
        step, q = self.steps(other), min(self._known.curvature, 1.0)
        return np.asarray(step - 0.5 * q * step**2 * (1.0 + self._noise(other)) - 0.5 * step * self._left_out)

    def broadcast_s(self, other: Coded) -> FloatArray:
        """Seconds until each pool knows of a step, if it knew of all steps before; 0 if that is free."""
        problem = self.way.problem
        if problem.downlink is None:
            return np.zeros(self.sizes.size)
        none = np.zeros(problem.num_edges)
        steady = replace(problem.downlink, edge_bits=none, cell_bits=none)
        bits = np.array([steady.step(int(size), self.way.entry, other.entry) for size in self.sizes])
        return broadcast_seconds(steady, self.sets, bits, problem.bandwidth_hz)


def _joules(problem: RoundProblem, sets: BoolArray) -> FloatArray:
    """Joules of the UEs under each of many sets: computing, and sending at full power over equal parts of the band."""
    links, B = problem.links, problem.bandwidth_hz
    share_hz = B / np.bincount(links.edge_of_ue, minlength=links.num_edges)[links.edge_of_ue]
    spent = transmit_j(links.ue_power_w, upload_s(links.ue_bits, share_hz, links.ue_snr_hz))
    if links.compute_j is not None:
        spent = spent + links.compute_j
    return np.asarray(sets @ np.bincount(links.edge_of_ue, weights=spent, minlength=links.num_edges))


def _first(order: IntArray, sizes: IntArray, num_edges: int) -> BoolArray:
    """For each size the set of so many first edges."""
    rank = np.full(num_edges, num_edges)
    rank[order] = np.arange(order.size)
    return np.asarray(rank[None] < sizes[:, None])


def _sizes(most: int, held: int) -> IntArray:
    """Numbers of edges to choose between, that `held` among them: two at least, one tells nothing of the spread."""
    least = max(min(2, most), 1)
    sizes = np.geomspace(least, max(most, least), min(max(most, 1), _MOST_SIZES)).round().astype(np.int64)
    return np.unique(np.append(sizes, held) if least <= held <= most else sizes)
