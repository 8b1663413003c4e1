"""How many edges hear and upload, and in how many bits each way, for the greatest decrease per second.

A pool of `n` of `K` edges that is called round after round leaves out `b = m - g` again and again. Its errors add up
until the curvature holds them. There the pool is content while `|b|^2` is left of the gradient, so that a step `s` of
all edges would gain `s |b|^2`: that is what staying costs a round. (A pool that changes errs anew each time, but in the
same steep directions, in which `beta L` is about 1 all along.) Noise of coding is drawn anew, in all directions alike.
Most of these are flat: it costs an eighth of what a move along the gradient does, `(q/16) s^2` of its square. So in
units of `|g|^2`

    gain(n) = s - (q/2) s^2 (1 + (v/n + w (1 + nu (1/n - 1/K) + v/n)) / 8) - s nu (1/n - 1/K)

with `nu = sigma^2 / |g|^2`, `v` the variance, over `|g|^2`, that coding adds to one edge's update, and `w` that which
the cloud's coding adds to a step, over its square. What it takes is the round's uploads and its broadcast to the pool.

A coding that feeds errors back adds no noise; with it, all that is learned comes `D` rounds later. Of `H` rounds that a
choice lasts, `H + D` are then needed, so that a round is worth `H / (H + D)` of its gain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.energy import transmit_j
from hpfl.network.latency import upload_s
from hpfl.planning.bandwidth import allocate
from hpfl.planning.broadcast import broadcast_seconds, forwards
from hpfl.planning.learned import Learned
from hpfl.planning.problem import RoundProblem

_MOST_SIZES = 8
_GUESS = Learned(signal=1.0, spread=4.0, curvature=0.25)  # before anything has arrived
_WORTH_CHANGING = 1.1
_HORIZON = 6.0  # H: rounds for which a choice is made
_FLATTER = 0.125  # of the curvature along moves, that in directions of noise
_WIDER = 4.0  # times as many numbers as one message has that hold a mean of messages together

RatePlace = tuple[int, int, int]
"""Entries of the menu for uploads and the step, and the number of a size."""
_NO_TIME_S = float(np.finfo(np.float64).tiny)  # what takes none counts as this, so that gains are still compared
_SLACK = 1.0 - 1e-6  # of bounds, for allocations are exact to less than that


@dataclass(frozen=True, kw_only=True)
class Coded:
    """One way to code: the problem with its bits, and what it adds: to one edge's update over the signal, and to a
    step over its square; and the rounds by which it delays what is coded for the first time."""

    entry: int
    problem: RoundProblem
    noise: float
    step_noise: float
    delay: float = 0.0

    def again(self, bits: float, before: "Coded", bits_before: float) -> float:
        """Rounds by which it delays a mean of messages that were coded like `before`, with so many bits each.

        Where these had few numbers, their mean is held by about four times as many; a share of that many waits
        `(4 share before / share - 1) / 2` rounds (docs/fastest.md). It never waits longer than what nobody coded.
        """
        if not self.delay or not before.delay:
            return self.delay
        return min(self.delay, max(0.5 * (_WIDER * bits_before / bits - 1.0), 0.0))


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
    pools = _Pools(ways=ways, sizes=sizes, sets=_first(order, sizes, ways[0].problem.num_edges))
    gains, steps = pools.gains(learned if learned.signal > 0 else _GUESS)
    price_s = pools.price_s(seconds_per_joule)
    rates = partial(_rates, gains, pools.told_s() + price_s[:, None])
    place, best, uploads = _greatest(rates, pools.uploads(), sizes >= size)
    if size in sizes:
        held, at_least, _ = _greatest(rates, uploads, sizes == size)
        place = held if best <= _WORTH_CHANGING * at_least else place
    up, down, column = place
    return PoolChoice(size=int(sizes[column]), step=float(steps[place]), way=ways[up], down=ways[down])


def gain(
    known: Learned, sizes: FloatArray, num_edges: int, *, noise: FloatArray | float, step_noise: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Decrease over `beta |g|^2` of pools of these sizes, and the scale of the step that gives it; arrays broadcast.

    `noise` is `v` and `step_noise` is `w` of the formula above. The curvature counts as 1 at most: `beta` is taken to
    suit the mean of all edges.
    """
    left_out = (known.noise_scale or 0.0) * (1.0 / sizes - 1.0 / num_edges)
    added = _FLATTER * (noise / sizes + step_noise * (1.0 + left_out + noise / sizes))
    step, q = known.longest(added), min(known.curvature, 1.0)
    return np.asarray(step - 0.5 * q * step**2 * (1.0 + added) - step * left_out), step


@dataclass(frozen=True, kw_only=True)
class _Uploads:
    """Seconds of the uploads by coding and size [C, S]: exact ones, or bounds from below where they are not `known`."""

    seconds: FloatArray
    known: BoolArray
    exact: Callable[[int, int], float]

    def but(self, way: int, column: int) -> "_Uploads":
        """The same with one entry known."""
        seconds, known = self.seconds.copy(), self.known.copy()
        seconds[way, column], known[way, column] = self.exact(way, column), True
        return replace(self, seconds=seconds, known=known)


def _greatest(
    rates: Callable[[FloatArray], FloatArray], uploads: _Uploads, among: BoolArray
) -> tuple[RatePlace, float, _Uploads]:
    """The place of the greatest rate [up, down, size] among some sizes, that rate, and the seconds known by then.

    Bandwidth is only allotted where a bound says that the greatest rate may be. Where messages are forwarded, codings
    of the step are all the same; then it is the last of the menu, should more edges be called after all.
    """
    while True:
        found = np.where(among, rates(uploads.seconds), -np.inf)
        up, back, column = (int(index) for index in np.unravel_index(int(np.argmax(found[:, ::-1])), found.shape))
        down = found.shape[1] - 1 - back
        if uploads.known[up, column]:
            return (up, down, column), float(found[up, down, column]), uploads
        uploads = uploads.but(up, column)


def _rates(gains: FloatArray, beside_s: FloatArray, uploads_s: FloatArray) -> FloatArray:
    """Decrease per second [up, down, size]; a loss counts whole: a rate would make it smaller."""
    seconds = np.maximum(uploads_s[:, None] + beside_s, _NO_TIME_S)
    return np.where(gains > 0, gains / seconds, gains)


@dataclass(frozen=True, kw_only=True)
class _Pools:
    """What is to be chosen between: `ways` to code [C], and `sets` [S, K] of these `sizes`."""

    ways: Sequence[Coded]
    sizes: IntArray
    sets: BoolArray

    def gains(self, known: Learned) -> tuple[FloatArray, FloatArray]:
        """Decrease and step [up, down, size]; messages that are forwarded as they came are not coded again."""
        noise = np.array([way.noise for way in self.ways])[:, None, None]
        coded_anew = np.array([way.step_noise for way in self.ways])[None, :, None]
        forwarded = self._forwarded()
        again = np.where(forwarded, 0.0, coded_anew)
        gains, steps = gain(known, self.sizes.astype(np.float64), self.sets.shape[1], noise=noise, step_noise=again)
        late = self._uploads_late()[:, None, None] + np.where(forwarded, 0.0, self._steps_late()[:, :, None])
        return np.where(gains > 0, gains * _HORIZON / (_HORIZON + late), gains), steps

    def _uploads_late(self) -> FloatArray:
        """Rounds by which each way [up] delays uploads: at the UEs, and where edges code again."""
        hops = [way.problem.edge_bits.max() > 0 for way in self.ways]
        return np.array([way.delay + hop * way.again(1.0, way, 1.0) for way, hop in zip(self.ways, hops, strict=True)])

    def _steps_late(self) -> FloatArray:
        """Rounds by which the cloud's own coding delays steps [up, down]."""
        if self.ways[0].problem.downlink is None:
            return np.zeros((len(self.ways), len(self.ways)))  # where hearing is free, no step is coded
        bits = self.ways[0].problem.downlink.step_bits
        pairs = [[down.again(bits[down.entry], up, bits[up.entry]) for down in self.ways] for up in self.ways]
        return np.array(pairs)

    def uploads(self) -> _Uploads:
        """Those of the first way and of the last are allotted exactly, and bound the others from below.

        A share of some bits takes at least that share of their time: all would be as much sooner if computing were,
        too. More bits do not take less time.
        """
        first, last = self.ways[0].problem, len(self.ways) - 1
        ends = {way: np.array([self._exact_s(way, column) for column in range(self.sizes.size)]) for way in {0, last}}
        shares = [_share_of_bits(way.problem, first) for way in self.ways]
        least = first.overhead_s + _SLACK * np.outer(shares, ends[0] - first.overhead_s)
        more = [_share_of_bits(way.problem, self.ways[last].problem) == 1.0 for way in self.ways]
        least = np.maximum(least, np.outer(more, _SLACK * ends[last]))
        known = np.zeros(least.shape, dtype=np.bool_)
        for way, seconds in ends.items():
            least[way], known[way] = seconds, True
        return _Uploads(seconds=least, known=known, exact=self._exact_s)

    def _exact_s(self, way: int, column: int) -> float:
        problem = self.ways[way].problem
        return problem.overhead_s + allocate(problem, self.sets[column]).round_latency_s

    def price_s(self, seconds_per_joule: float) -> FloatArray:
        """What the joules of each pool's UEs count as much as, by coding and size."""
        if not seconds_per_joule:
            return np.zeros((len(self.ways), self.sizes.size))
        return seconds_per_joule * np.stack([_joules(way.problem, self.sets) for way in self.ways])

    def told_s(self) -> FloatArray:
        """Seconds [up, down, size] until each pool knows of a step, if it knew of all before; 0 if that is free."""
        problem, shape = self.ways[0].problem, (len(self.ways), len(self.ways), self.sizes.size)
        if problem.downlink is None:
            return np.zeros(shape)
        none = np.zeros(problem.num_edges)
        steady = replace(problem.downlink, edge_bits=none, cell_bits=none)
        bits = np.array(self._each(steady.step))
        columns = np.broadcast_to(np.arange(self.sizes.size), shape)
        pairs, places = np.unique(np.stack([columns.ravel(), bits.ravel()]), axis=1, return_inverse=True)
        seconds = broadcast_seconds(steady, self.sets[pairs[0].astype(np.int64)], pairs[1], problem.bandwidth_hz)
        return np.asarray(seconds[places.reshape(shape)])

    def _forwarded(self) -> BoolArray:
        """Whether the cloud forwards a pool's messages as they came [up, down, size], or sends nothing at all."""
        downlink = self.ways[0].problem.downlink
        if downlink is None:
            return np.ones(1, dtype=np.bool_)
        steps, messages = downlink.step_bits, downlink.message_bits
        return np.array(self._each(lambda size, up, down: forwards(size, steps[down], messages[up])))

    def _each(self, of: Callable[[int, int, int], float]) -> list[list[list[float]]]:
        """Something of each size and each two entries of the menu [up, down, size]."""
        entries, sizes = [way.entry for way in self.ways], self.sizes.tolist()
        return [[[of(size, up, down) for size in sizes] for down in entries] for up in entries]


def _share_of_bits(problem: RoundProblem, of: RoundProblem) -> float:
    """Of another's bits, the least of both hops, 1 at most; none where joules are limited, which fewer bits stretch."""
    if of.ue_energy_j is not None:
        return 0.0
    hops = ((problem.ue_bits.max(), of.ue_bits.max()), (problem.edge_bits.max(), of.edge_bits.max()))
    return min([1.0, *(float(mine / theirs) for mine, theirs in hops if theirs > 0)])


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
