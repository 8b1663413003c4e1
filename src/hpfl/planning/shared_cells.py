"""Cells that send over the same band at a time: groups of them, who disturbs whom, and when all are through.

At a UE with `s = p h / N_0` the other cells of its group add `J = sum_j p g_j / N_0` Hz to the noise of its band `b`,
so that it hears `b log2(1 + s / (b + J))` bit/s: concave in `b`, and 0 at 0. Groups share the band so that they end
together. The shortest time lies between that of the slowest group alone on the band and that of all groups in turn.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.planning.link_curve import LN2, link_curve
from hpfl.planning.multicast import OnAir

_MOST_STEPS = 60
_MOST_NEWTON = 40
_LEAST_RATIO = 1e-100


class SharedCells(NamedTuple):
    """All UEs that are there: the edge of each and its `s` (Hz); and how edges lie around the cloud (rad).

    `cross_hz(j)` is `p g / N_0` of the way from edge `j` to each of these UEs, for which only places count.
    """

    reuse: int
    edge_of: IntArray
    snr_hz: FloatArray
    angle: FloatArray
    cross_hz: Callable[[int], FloatArray]


def groups_of(edges: IntArray, angle: FloatArray, reuse: int) -> IntArray:
    """The group of each of some edges: as few groups as have no more than `reuse` cells.

    Cells are dealt to them in turn around the cloud, so that those of one group lie apart.
    """
    count = -(-edges.size // reuse)
    place = np.argsort(np.argsort(angle[edges], kind="stable"), kind="stable")
    return np.asarray(place % max(count, 1), dtype=np.int64)


def shared(cells: SharedCells, edges: IntArray, bits: FloatArray, bandwidth_hz: float, *, close: float) -> OnAir:
    """When the cells of these edges are through that send `bits` (0: silent), and the Hz of the group of each."""
    sends = np.flatnonzero(bits > 0)
    hz = np.zeros(edges.size)
    if not sends.size:
        return OnAir(np.asarray(0.0), hz)
    group = groups_of(edges[sends], cells.angle, cells.reuse)
    links = _links(cells, edges[sends], bits[sends], group)
    alone_s = _slowest(links, links.nats / _rate_nats(links, np.asarray(bandwidth_hz)))
    low_s, high_s = float(alone_s.max()), float(alone_s.sum())
    for _ in range(_MOST_STEPS):
        if high_s - low_s <= close * high_s:
            break
        middle_s = 0.5 * (low_s + high_s)
        enough = float(_need_hz(links, middle_s, bandwidth_hz).sum()) <= bandwidth_hz
        low_s, high_s = (low_s, middle_s) if enough else (middle_s, high_s)
    hz[sends] = _need_hz(links, high_s, bandwidth_hz)[group]
    return OnAir(np.asarray(high_s), hz)


class _Listeners(NamedTuple):
    """The UEs of cells that send: nats to hear, `s` and `J` (Hz), and the group of each, of so many."""

    nats: FloatArray
    snr_hz: FloatArray
    other_hz: FloatArray
    group: IntArray
    num_groups: int


def _links(cells: SharedCells, edges: IntArray, bits: FloatArray, group: IntArray) -> _Listeners:
    place = np.full(cells.angle.size, -1)
    place[edges] = np.arange(edges.size)
    at = place[cells.edge_of]
    hears = np.flatnonzero(at >= 0)
    at, other_hz = at[hears], np.zeros(hears.size)
    for number, edge in enumerate(edges.tolist()):
        disturbed = (group[at] == group[number]) & (at != number)
        if disturbed.any():
            other_hz[disturbed] += cells.cross_hz(edge)[hears[disturbed]]
    return _Listeners(bits[at] * LN2, cells.snr_hz[hears], other_hz, group[at], int(group.max()) + 1)


def _slowest(links: _Listeners, values: FloatArray) -> FloatArray:
    """The greatest value among the UEs of each group."""
    greatest = np.zeros(links.num_groups)
    np.maximum.at(greatest, links.group, values)
    return greatest


def _rate_nats(links: _Listeners, hz: FloatArray) -> FloatArray:
    return np.asarray(hz * np.log1p(links.snr_hz / (hz + links.other_hz)))


def _need_hz(links: _Listeners, seconds: float, most_hz: float) -> FloatArray:
    """Least Hz with which each group is through in time, or more than `most_hz` where it cannot be within that.

    Newton from the left, where a concave rate is never overtaken: from what it would take without the others, or if the
    rate fell no more than at 0 Hz.
    """
    wanted = links.nats / seconds
    slack = links.snr_hz / wanted - 1.0
    hopeless = slack <= 0
    alone_hz = links.snr_hz * link_curve(np.where(hopeless, 1.0, np.maximum(slack, _LEAST_RATIO))).bandwidth
    with np.errstate(divide="ignore"):
        steepest = np.log1p(links.snr_hz / links.other_hz)
    hz = np.minimum(np.maximum(alone_hz, wanted / steepest), 2.0 * most_hz)
    for _ in range(_MOST_NEWTON):
        full = hz + links.other_hz
        slope = np.log1p(links.snr_hz / full) - hz * links.snr_hz / (full * (full + links.snr_hz))
        step = (wanted - _rate_nats(links, hz)) / slope
        hz = np.minimum(hz + np.maximum(step, 0.0), 2.0 * most_hz)
        if (step <= 1e-13 * hz).all():
            break
    return _slowest(links, np.where(hopeless, 2.0 * most_hz, hz))
