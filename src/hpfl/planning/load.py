"""What the edges of a set still have to send, with every time measured as slack over the least time possible.

Edge k cannot finish before `least_s[k]`, its UE phase not before `least_phase_s[k]`. A deadline `O` leaves it the
slack `X = O - least_s[k]`, which splits into `g` for the UE phase and `h = X - g` for the backhaul; UE i then has
`g + spare_s[i]` beyond its own `T_min`. Nothing is ever the small difference of two large times.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.links import Links
from hpfl.planning.link_curve import LN2, LinkCurve, energy_nats, link_curve
from hpfl.planning.problem import RoundProblem
from hpfl.planning.rules import ProblemError

_LINKS_PER_CHUNK = 1 << 16  # few enough for the cache, enough to keep two threads busy
_CHUNKS_FOR_TWO = 8  # from here on a second thread is worth its start
_LEAST_RATIO = 1e-100  # below, curvatures leave the range of float64


@dataclass(frozen=True, kw_only=True)
class Load:
    """Links with traffic left, over the edges `edges`; UE arrays run over `ues`, sorted by edge."""

    edges: IntArray
    least_s: FloatArray
    least_phase_s: FloatArray
    has_ues: BoolArray
    has_backhaul: BoolArray
    backhaul_least_s: FloatArray
    backhaul_snr_hz: FloatArray
    ues: IntArray
    edge_of: IntArray
    starts: IntArray
    fed: IntArray
    ue_least_s: FloatArray
    ue_snr_hz: FloatArray
    spare_s: FloatArray
    nats_cap: FloatArray | None
    plain: bool
    chunks: tuple[tuple[slice, slice], ...]


class Need(NamedTuple):
    """Hz of each edge at a split; minus its slopes in `g` and `h` (`A` and `C`), and `-d ln A / dg`, `-d ln C / dh`."""

    hz: FloatArray
    phase_slope: FloatArray
    phase_bend: FloatArray
    backhaul_slope: FloatArray
    backhaul_bend: FloatArray


def load_of(problem: RoundProblem, scheduled: BoolArray) -> Load:
    """The traffic of the scheduled edges; delivered links (0 bits) drop out, and edges that have none but those."""
    links, edge_of_ue = problem.links, problem.links.edge_of_ue
    if not links.is_sorted:
        raise ProblemError(_unsorted(edge_of_ue))
    sending = links.ue_bits > 0
    if not scheduled.all():
        sending &= scheduled[edge_of_ue]
    ues = np.flatnonzero(sending)
    every = ues.size == links.num_ues
    owner = edge_of_ue if every else edge_of_ue[ues]
    first = np.searchsorted(owner, np.arange(links.num_edges + 1))
    has_ues = first[1:] > first[:-1]
    busy = scheduled & (has_ues | (links.edge_bits > 0))
    edges = np.flatnonzero(busy)
    starts, fed = first[:-1][has_ues], np.flatnonzero(has_ues[edges])
    edge_of = owner if edges.size == links.num_edges else (np.cumsum(busy) - 1)[owner]
    ue_snr_hz = links.ue_snr_hz if every else links.ue_snr_hz[ues]
    ue_least_s = (links.ue_bits if every else links.ue_bits[ues]) * LN2 / ue_snr_hz
    earliest_s, nats_cap = _earliest(links, ues, ue_least_s)
    least_phase_s = np.zeros(edges.size)
    if ues.size:
        least_phase_s[fed] = np.maximum.reduceat(earliest_s, starts)
    has_ues = has_ues[edges]
    backhaul_snr_hz = links.edge_snr_hz[edges]
    backhaul_least_s = links.edge_bits[edges] * LN2 / backhaul_snr_hz
    has_backhaul = backhaul_least_s > 0
    with np.errstate(invalid="ignore"):  # infinite where a budget can never suffice
        spare_s = least_phase_s[edge_of] - earliest_s
    return Load(
        edges=edges,
        least_s=least_phase_s + backhaul_least_s,
        least_phase_s=least_phase_s,
        has_ues=has_ues,
        has_backhaul=has_backhaul,
        backhaul_least_s=np.where(has_backhaul, backhaul_least_s, 1.0),
        backhaul_snr_hz=np.where(has_backhaul, backhaul_snr_hz, 0.0),
        ues=ues,
        edge_of=edge_of,
        starts=starts,
        fed=fed,
        ue_least_s=ue_least_s,
        ue_snr_hz=ue_snr_hz,
        spare_s=spare_s,
        nats_cap=nats_cap,
        plain=bool(has_ues.all() and has_backhaul.all()),
        chunks=_chunks(starts, ues.size),
    )


def _unsorted(edge_of_ue: IntArray) -> str:
    ue = int(np.argmax(edge_of_ue[1:] < edge_of_ue[:-1])) + 1
    return (
        f"edge_of_ue[{ue}] is {edge_of_ue[ue]} after {edge_of_ue[ue - 1]}; a planner takes UEs sorted by edge "
        "(hpfl.plan sorts them, and answers in the order given)"
    )


def _chunks(starts: IntArray, num_ues: int) -> tuple[tuple[slice, slice], ...]:
    """Slices of whole segments, each with about `_LINKS_PER_CHUNK` links: (links, segments)."""
    marks = np.unique(np.searchsorted(starts, np.arange(0, num_ues, _LINKS_PER_CHUNK)))
    marks = marks[marks < starts.size]
    bounds = [*marks.tolist(), starts.size]
    ends = [*starts[marks].tolist(), num_ues]
    return tuple(
        (slice(low, high), slice(first, last))
        for (low, high), (first, last) in zip(pairwise(ends), pairwise(bounds), strict=True)
        if first < last
    )


def _earliest(links: Links, ues: IntArray, least_s: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """When each UE can have delivered at the earliest, and the `y` where its energy budget binds."""
    compute_s = links.compute_s if ues.size == links.num_ues else links.compute_s[ues]
    earliest_s = compute_s + least_s
    if links.ue_energy_j is None:
        return earliest_s, None
    nats_cap = energy_nats(least_s, links.ue_power_w[ues], links.ue_energy_j[ues])
    return np.where(nats_cap > 0, earliest_s, np.inf), nats_cap


def need_at(load: Load, phase_slack_s: FloatArray, backhaul_slack_s: FloatArray) -> Need:
    """Hz and slopes of every edge when its UE phase has slack `g` and its backhaul slack `h` (leading axes batch)."""
    ratio = np.maximum(backhaul_slack_s / load.backhaul_least_s, _LEAST_RATIO)
    if len(load.chunks) == 1 and load.plain and load.nats_cap is None:
        ues = load.ues.size  # few links: one pass over all of them
        both = link_curve(np.concatenate([_ue_ratio(load, slice(None), phase_slack_s), ratio], axis=-1))
        hz, slope, curvature = _chunk_sums(load, 0, LinkCurve(*(part[..., :ues] for part in both)))
        curve = LinkCurve(*(part[..., ues:] for part in both))
    else:
        hz, slope, curvature = _phase_sums(load, phase_slack_s)
        curve = link_curve(ratio)
    backhaul_hz = load.backhaul_snr_hz * curve.bandwidth
    backhaul_slope = backhaul_hz * curve.decay / load.backhaul_least_s
    found = Need(hz + backhaul_hz, slope, curvature / slope, backhaul_slope, curve.bend / load.backhaul_least_s)
    return found if load.plain else _one_phase(load, found)


def _one_phase(load: Load, found: Need) -> Need:
    """Where one phase has no traffic, the other's slope for both, and bends that leave all slack to the other."""
    one = np.ones_like(found.hz)
    return Need(
        found.hz,
        np.where(load.has_ues, found.phase_slope, found.backhaul_slope),
        np.where(load.has_ues, np.where(load.has_backhaul, found.phase_bend, 0.0), one),
        np.where(load.has_backhaul, found.backhaul_slope, found.phase_slope),
        np.where(load.has_backhaul, np.where(load.has_ues, found.backhaul_bend, 0.0), one),
    )


def ue_curve(load: Load, links: slice, phase_slack_s: FloatArray) -> LinkCurve:
    """The links `links` of the UEs, when their edges' phases have slack `phase_slack_s`."""
    cap = None if load.nats_cap is None else load.nats_cap[links]
    return link_curve(_ue_ratio(load, links, phase_slack_s), cap)


def _ue_ratio(load: Load, links: slice, phase_slack_s: FloatArray) -> FloatArray:
    slack_s = phase_slack_s[..., load.edge_of[links]] + load.spare_s[links]
    return np.asarray(np.maximum(slack_s / load.ue_least_s[links], _LEAST_RATIO))


def _phase_sums(load: Load, phase_slack_s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums over each edge's UEs of the least bandwidth, minus its slope, and its curvature; ones without UEs."""
    sums = (np.zeros(phase_slack_s.shape), np.ones(phase_slack_s.shape), np.ones(phase_slack_s.shape))

    def add(chunk: int) -> None:
        links, segments = load.chunks[chunk]
        parts = _chunk_sums(load, chunk, ue_curve(load, links, phase_slack_s))
        for total, part in zip(sums, parts, strict=True):
            total[..., load.fed[segments]] = part

    for_each_chunk(len(load.chunks), add)
    return sums


def for_each_chunk(count: int, work: Callable[[int], None]) -> None:
    """Call `work` with the number of each of `count` chunks, two at a time where they are many; none may overlap."""
    if count < _CHUNKS_FOR_TWO:
        for chunk in range(count):
            work(chunk)
        return
    contexts = [copy_context() for _ in range(count)]  # what NumPy is told to raise holds in every thread
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda chunk, context: context.run(work, chunk), range(count), contexts))


def _chunk_sums(load: Load, chunk: int, curve: LinkCurve) -> tuple[FloatArray, FloatArray, FloatArray]:
    links, segments = load.chunks[chunk]
    starts = load.starts[segments] - links.start
    least_s = load.ue_least_s[links]
    hz = load.ue_snr_hz[links] * curve.bandwidth
    slope = hz * (curve.decay / least_s)
    curvature = slope * (curve.bend / least_s)
    return (
        np.asarray(np.add.reduceat(hz, starts, axis=-1)),
        np.asarray(np.add.reduceat(slope, starts, axis=-1)),
        np.asarray(np.add.reduceat(curvature, starts, axis=-1)),
    )
