"""One hop alone: the shortest time in which links that share a band all deliver, with the bandwidth of each.

A link has until a common end, and may begin before or after the others; `b_i` falls with its window, so what remains is
one equation, `sum_i b_i(x + spare_i) = B`, in the slack `x` over the least time possible. The sum is convex and
decreasing: its tangents certify a slack that no bandwidth can beat, and Newton steps on `1 / D` find the root.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.deadline import ConvergenceError, filling_slack_s, link_work, next_slack_s
from hpfl.planning.link_curve import link_curve
from hpfl.planning.load import for_each_chunk

_LINKS_PER_CHUNK = 1 << 16  # few enough for the cache, enough to keep two threads busy
_MOST_STEPS = 400
CLOSE = 1e-11  # relative difference of need and budget at which Newton has nothing left to gain
_LEAST_RATIO = 1e-100


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Links of one hop: `T_min = z ln 2 / s` and `s` of each, what each has to spare over the slowest, energy caps.

    No link can deliver before `floor_s`; link i could have delivered `spare_s[i]` earlier, had it all the bandwidth.
    """

    floor_s: float
    spare_s: FloatArray
    least_s: FloatArray
    snr_hz: FloatArray
    nats_cap: FloatArray | None = None


class Shared(NamedTuple):
    """The end of a hop: its Hz and minus their slopes, link by link, when it ends, and before which none can end."""

    end_s: float
    bound_s: float
    hz: FloatArray
    slope: FloatArray


def hop_of(least_s: FloatArray, snr_hz: FloatArray) -> Hop:
    """Links that all begin at once."""
    floor_s = float(least_s.max(initial=0.0))
    return Hop(floor_s=floor_s, spare_s=floor_s - least_s, least_s=least_s, snr_hz=snr_hz)


def share_out(hop: Hop, bandwidth_hz: float, *, close: float = CLOSE) -> Shared:
    """The earliest common end of all links, and the bandwidth that each needs for it.

    Together they need what there is to within the share `close`.
    """
    if not hop.least_s.size:
        return Shared(0.0, 0.0, np.zeros(0), np.zeros(0))
    slack_s, low, high = _start(hop, bandwidth_hz), 0.0, np.inf
    for _ in range(_MOST_STEPS):
        hz, slope = _need(hop, slack_s)
        total_hz, total_slope = float(np.add.reduce(hz)), float(np.add.reduce(slope))
        low = max(low, slack_s + (total_hz - bandwidth_hz) / total_slope)
        high = min(high, slack_s) if total_hz <= bandwidth_hz else high
        if abs(total_hz - bandwidth_hz) <= close * bandwidth_hz or high * (1.0 - 1e-15) <= low:
            return Shared(hop.floor_s + slack_s, hop.floor_s + low, hz, slope)
        straight_s = max(slack_s + (total_hz / bandwidth_hz - 1.0) * total_hz / total_slope, low)
        if straight_s == slack_s or straight_s >= high:
            straight_s = next_slack_s(slack_s, total_hz / bandwidth_hz, total_hz / total_slope, (low, high))
        slack_s = straight_s
    raise ConvergenceError(
        f"bandwidth for {hop.least_s.size} links: no end needs {bandwidth_hz:g} Hz to within {close:g}; the slack "
        f"over the least time lies between {low:g} and {high:g} s"
    )


def _need(hop: Hop, slack_s: float) -> tuple[FloatArray, FloatArray]:
    """Hz of every link at a slack, and minus its slope."""
    hz, slope = np.empty((2, hop.least_s.size))
    pieces = [slice(at, at + _LINKS_PER_CHUNK) for at in range(0, hz.size, _LINKS_PER_CHUNK)]

    def fill(piece: int) -> None:
        part = pieces[piece]
        least_s = hop.least_s[part]
        ratio = np.maximum((slack_s + hop.spare_s[part]) / least_s, _LEAST_RATIO)
        curve = link_curve(ratio, None if hop.nats_cap is None else hop.nats_cap[part])
        hz[part] = hop.snr_hz[part] * curve.bandwidth
        slope[part] = hz[part] * (curve.decay / least_s)

    for_each_chunk(len(pieces), fill)
    return hz, slope


def _start(hop: Hop, bandwidth_hz: float) -> float:
    """A first slack, as if link i needed `work_i / (x + spare_i)` Hz."""
    work = link_work(hop.least_s, hop.snr_hz, bandwidth_hz / hop.least_s.size)
    return filling_slack_s(work, hop.spare_s, bandwidth_hz, float(work.sum()) / bandwidth_hz)
