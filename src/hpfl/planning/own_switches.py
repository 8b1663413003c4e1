"""Edges that switch at moments of their own: two waves, the first of which sends on while the second still computes.

One switch lets all backhauls wait for the last UE. Where some edges compute much longer than others, those ready first
(the early ones) may go ahead: their UEs upload over the band until `G_1`, their backhauls then take `x` Hz of it, and
the late ones what is left. Either the early ones send until the round is over, or until the late ones' UEs are through
(`G_2`), whose backhauls then have the whole band, or they are through before any late UE has computed. Every link has
constant Hz within its own window, and at no moment do links use more than the band. All limits count steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.allocation import realise
from hpfl.planning.any_time import any_time_least_s
from hpfl.planning.load import Load, load_of
from hpfl.planning.one_hop import Hop, Shared, hop_of, share_out
from hpfl.planning.problem import Allocation, RoundProblem
from hpfl.planning.spectrum import most_hz

WORTHWHILE = 0.02  # of a round, that edges' readiness must differ by for waves to be looked for
_LEAST_GAIN = 1e-4  # of a round, below which one switch stays
_MOST_CUTS = 4  # places between early and late edges that are looked at
_SHARES = 7  # steps towards the best share of the band for the early ones' backhauls
_LONGEST_ODDS = 4.0
_IN_TIME = 1e-3  # of a round, by which the early ones may be through too soon
_CLOSE = 1e-6
_OVERLAPS = 4  # steps until it is known which late UEs send before `G_1`


@dataclass(frozen=True)
class _Wave:
    """Edges of a load that switch together: both hops, and when each of their UEs has computed."""

    edges: BoolArray
    access: Hop
    backhaul: Hop
    ready_s: FloatArray


@dataclass(frozen=True)
class _Sent:
    """A wave with the Hz of both hops; its switch is when its UEs are through."""

    wave: _Wave
    access: Shared
    backhaul: Shared

    @property
    def end_s(self) -> float:
        """When the wave is through."""
        return self.access.end_s + self.backhaul.end_s


@dataclass(frozen=True)
class _Waves:
    """Two waves, and by how much the early one ends too late."""

    early: _Sent
    late: _Sent
    off_s: float = 0.0

    @property
    def end_s(self) -> float:
        """When the round is over."""
        return max(self.early.end_s, self.late.end_s)


def with_own_switches(problem: RoundProblem, one: Allocation) -> Allocation:
    """The allocation with one switch, or a faster one of the same set whose edges switch at two moments."""
    load = load_of(problem, one.scheduled)
    cuts = _cuts(load, one.round_latency_s) if problem.steady else []
    least_s = any_time_least_s(problem, one.scheduled, one.round_latency_s) if cuts else one.round_latency_s
    if least_s * (1.0 + WORTHWHILE) > one.round_latency_s:
        return one
    best = one
    for waves in (waves for cut in cuts for waves in _arranged(problem, load, cut)):
        if waves.end_s < best.round_latency_s * (1.0 - _LEAST_GAIN):
            made = _allotted(problem, load, one, waves)
            fits = most_hz(problem.links, made) <= problem.bandwidth_hz * (1.0 + 1e-9)
            best = made if fits and made.round_latency_s < best.round_latency_s else best
        if best.round_latency_s <= least_s * (1.0 + _IN_TIME):
            break
    return best if best is one else _certified(best, least_s)


def _certified(own: Allocation, least_s: float) -> Allocation:
    """With the bound for any bandwidth over time: that for one switch does not hold."""
    latency_s = own.round_latency_s
    return replace(
        own,
        least_latency_s=least_s,
        latency_gap=(latency_s - least_s) / latency_s,
        any_time_least_s=least_s,
        certificate="any bandwidth over time",
    )


def _cuts(load: Load, latency_s: float) -> list[BoolArray]:
    """Which edges are early, at the widest gaps between moments at which edges could or should begin to send on.

    That is the later, the longer an edge's phase takes at least, and the earlier, the longer its backhaul does. None
    where edges are ready together.
    """
    ready_s = load.least_phase_s - np.where(load.has_backhaul, load.backhaul_least_s, 0.0)
    if ready_s.size < 2 or np.ptp(ready_s) < WORTHWHILE * latency_s:
        return []
    order = np.argsort(ready_s, kind="stable")
    gaps_s = np.diff(ready_s[order])
    widest = np.argsort(-gaps_s, kind="stable")[:_MOST_CUTS]
    return [ready_s <= ready_s[order[cut]] for cut in widest.tolist() if gaps_s[cut] > 0]


def _arranged(problem: RoundProblem, load: Load, early: BoolArray) -> Iterator[_Waves]:
    """The waves of one cut, each way that works; where one before the other works, nothing is better."""
    waves = _wave(problem, load, early), _wave(problem, load, ~early)
    before = _before(waves, problem.bandwidth_hz)
    if before.off_s <= 0:
        yield before
        return
    for until_end in (True, False):
        found = _best_share(partial(_beside, waves, problem.bandwidth_hz, until_end))
        if found is not None:
            yield found


def _wave(problem: RoundProblem, load: Load, edges: BoolArray) -> _Wave:
    mine, sends = edges[load.edge_of], edges & load.has_backhaul
    floor_s = float(load.least_phase_s[edges & load.has_ues].max(initial=0.0))
    access = Hop(
        floor_s=floor_s,
        spare_s=((floor_s - load.least_phase_s)[load.edge_of] + load.spare_s)[mine],
        least_s=load.ue_least_s[mine],
        snr_hz=load.ue_snr_hz[mine],
        nats_cap=None if load.nats_cap is None else load.nats_cap[mine],
    )
    backhaul = hop_of(load.backhaul_least_s[sends], load.backhaul_snr_hz[sends])
    return _Wave(edges, access, backhaul, problem.compute_s[load.ues[mine]])


def _before(waves: tuple[_Wave, _Wave], bandwidth_hz: float) -> _Waves:
    """Both waves with all of the band; the early one should be through before a UE of the late one has computed."""
    early, late = (_Sent(wave, _out(wave.access, bandwidth_hz), _out(wave.backhaul, bandwidth_hz)) for wave in waves)
    return _Waves(early, late, early.end_s - float(np.min(late.wave.ready_s, initial=np.inf)))


def _beside(waves: tuple[_Wave, _Wave], bandwidth_hz: float, until_end: bool, share: float) -> _Waves:
    """Early backhauls with a share of the band, late links with the rest; until the round's end, or until `G_2`."""
    rest_hz = (1.0 - share) * bandwidth_hz
    late_access = _out(waves[1].access, rest_hz)
    late = _Sent(waves[1], late_access, _out(waves[1].backhaul, rest_hz if until_end else bandwidth_hz))
    early_access = _early_access(waves, late_access, bandwidth_hz)
    early = _Sent(waves[0], early_access, _out(waves[0].backhaul, share * bandwidth_hz))
    return _Waves(early, late, early.end_s - (late.end_s if until_end else late_access.end_s))


def _early_access(waves: tuple[_Wave, _Wave], late_access: Shared, bandwidth_hz: float) -> Shared:
    """The early UEs' uploads, beside those late ones that begin before they are over."""
    early, late = waves
    found, taken_hz = _out(early.access, bandwidth_hz), 0.0
    for step in range(_OVERLAPS):
        meets = late.ready_s < found.end_s if step < _OVERLAPS - 1 else np.ones(late.ready_s.size, dtype=np.bool_)
        beside_hz = float(late_access.hz[meets].sum())
        if beside_hz <= taken_hz:
            break
        taken_hz = beside_hz
        found = _out(early.access, bandwidth_hz - taken_hz)
    return found


def _out(hop: Hop, bandwidth_hz: float) -> Shared:
    return share_out(hop, bandwidth_hz, close=_CLOSE)


def _best_share(beside: Callable[[float], _Waves]) -> _Waves | None:
    """The least share of the band with which the early ones end in time, in log odds.

    By false position, with the weight of an end that stays halved (Illinois), from shares of 2 and 98 %.
    """
    low, high = -_LONGEST_ODDS, _LONGEST_ODDS
    least, best = beside(_share(low)), beside(_share(high))
    late_s, early_s = least.off_s, best.off_s
    if late_s <= 0 or early_s > 0:
        return least if late_s <= 0 else None
    for _ in range(_SHARES):
        middle = low + (high - low) * np.clip(late_s / (late_s - early_s), 0.05, 0.95)
        waves = beside(_share(middle))
        if waves.off_s > 0:
            low, late_s, early_s = middle, waves.off_s, 0.5 * early_s
        else:
            high, early_s, late_s, best = middle, waves.off_s, 0.5 * late_s, waves
            if -waves.off_s <= _IN_TIME * waves.end_s:
                break
    return best


def _share(odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-odds)))


def _allotted(problem: RoundProblem, load: Load, one: Allocation, waves: _Waves) -> Allocation:
    """The waves as an allocation, with the times it really gives."""
    ue_hz, edge_hz = np.zeros(problem.num_ues), np.zeros(problem.num_edges)
    switch_s = np.full(problem.num_edges, np.nan)
    switch_s[one.scheduled] = 0.0
    for sent in (waves.early, waves.late):
        edges = sent.wave.edges
        ue_hz[load.ues[edges[load.edge_of]]] = sent.access.hz * (1.0 - _CLOSE)
        edge_hz[load.edges[edges & load.has_backhaul]] = sent.backhaul.hz * (1.0 - _CLOSE)
        switch_s[load.edges[edges]] = sent.access.end_s
    return replace(
        one,
        ue_bandwidth_hz=ue_hz,
        edge_bandwidth_hz=edge_hz,
        times=realise(problem, one.scheduled, ue_hz, edge_hz, switch=switch_s),
        price_s_per_hz=0.0,
        edge_weight=None,
        ue_weight=None,
    )
