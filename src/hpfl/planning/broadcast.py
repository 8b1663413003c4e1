"""What a broadcast takes: who lacks how much of the current model (`Downlink`), and the two multicasts of its hops.

After a step the cloud sends to the edges that hear, over all of the band at the rate of the worst of them; then each of
these edges sends to the UEs that are under it, and the cells share the band so that they end together. A receiver that
lacks `x` bits of the model before the step needs `min(model, x + step)`; where some edges need the whole model and
others only steps, the cloud sends both, so that every edge can hand on what its own UEs need.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.downlink import Powers, servers_j
from hpfl.network.latency import rate_bps
from hpfl.planning.multicast import CLOSE, OnAir, together
from hpfl.planning.shared_cells import SharedCells, shared
from hpfl.records import PER_EDGE

if TYPE_CHECKING:
    from hpfl.planning.problem import Plan, RoundProblem

_QUICK = 1e-4
SHARE_BITS = 32
"""Of the number that each forwarded message is multiplied by."""


@dataclass(frozen=True, kw_only=True)
class Downlink:
    """What is known of the way down before a round is planned; `s = p h / N_0` with the gains of the way up.

    `edge_snr_hz` are the cloud's links, `cell_snr_hz` those from each edge to the worst of the `cell_ues` UEs that are
    under it. `edge_bits` is what each edge lacks of the current model, `cell_bits` what the most backward of its UEs
    does (`model_bits`: all of it). `step_bits` are those of a step that the cloud codes, `message_bits` those of a
    message that it may forward instead (infinite: it may not), by entry of the menu of codings. `again_bits` is what
    each cell sends besides, once per broadcast; without a `backhaul` the one edge is the cloud. Where cells send over
    the same band at a time (`sharing`), `numbers` are those that the edges have in it.
    """

    edge_snr_hz: FloatArray = field(metadata=PER_EDGE)
    cell_snr_hz: FloatArray = field(metadata=PER_EDGE)
    edge_bits: FloatArray = field(metadata=PER_EDGE)
    cell_bits: FloatArray = field(metadata=PER_EDGE)
    cell_ues: IntArray = field(metadata=PER_EDGE)
    model_bits: float
    step_bits: tuple[float, ...]
    message_bits: tuple[float, ...]
    powers: Powers = field(default_factory=Powers)
    again_bits: float = 0.0
    backhaul: bool = True
    numbers: IntArray | None = field(default=None, metadata=PER_EDGE)
    sharing: SharedCells | None = None

    def step(self, num_arrivals: int, coding: int = 0, step_coding: int | None = None) -> float:
        """Bits of the step that so many updates make: none, as many messages forwarded, coded anew, or the model."""
        own = self.step_bits[coding if step_coding is None else step_coding]
        return cheapest_step(num_arrivals, own, self.message_bits[coding], self.model_bits)


def cheapest_step(num_arrivals: int, step_bits: float, message_bits: float, model_bits: float) -> float:
    """Bits of a step: messages are forwarded where they are no more than the step that would be coded of them."""
    if not num_arrivals:
        return 0.0
    forwarded = forwards(num_arrivals, step_bits, message_bits)
    return min(num_arrivals * (message_bits + SHARE_BITS) if forwarded else step_bits, model_bits)


def forwards(num_arrivals: int, step_bits: float, message_bits: float) -> bool:
    """Whether messages are forwarded; a single one always is, since that adds no noise."""
    return num_arrivals * message_bits <= step_bits


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """A broadcast: seconds and bits of both hops, the Hz of every cell, and joules of servers and of each cell's UEs.

    `hears` are the edges that really receive, for they have somebody under them.
    """

    hears: BoolArray = field(metadata=PER_EDGE)
    cell_bits: FloatArray = field(metadata=PER_EDGE)
    cell_hz: FloatArray = field(metadata=PER_EDGE)
    cell_ue_j: FloatArray = field(metadata=PER_EDGE)
    whole: BoolArray = field(metadata=PER_EDGE)
    cloud_s: float
    cells_s: float
    cloud_bits: float
    servers_j: float

    @property
    def seconds(self) -> float:
        """From the step until everybody that hears has the new model."""
        return self.cloud_s + self.cells_s

    @property
    def bits(self) -> float:
        """On the air, of both hops; a multicast counts once."""
        return self.cloud_bits + float(self.cell_bits.sum())

    @property
    def joules(self) -> float:
        """Of servers and UEs together."""
        return self.servers_j + float((self.cell_ue_j).sum())


class _Multicasts(NamedTuple):
    """Bits of the cloud's multicast [...] and of the cells' [..., K], and the edges that need the whole model."""

    hears: BoolArray
    cloud: FloatArray
    cells: FloatArray
    whole: BoolArray


def broadcast_time(downlink: Downlink, hears: BoolArray, step_bits: float, bandwidth_hz: float) -> Broadcast:
    """What it takes to tell the edges that `hears` [K] marks, and the UEs under them, of a step of so many bits."""
    sent = _multicasts(downlink, hears, np.asarray(step_bits))
    cloud_s = float(_cloud_s(downlink, sent, bandwidth_hz))
    cells = _on_air(downlink, sent.cells, bandwidth_hz)
    seconds = np.where(sent.cells > 0, float(cells.seconds), 0.0)
    powers = downlink.powers
    return Broadcast(
        hears=sent.hears,
        cell_bits=sent.cells,
        cell_hz=cells.hz,
        cell_ue_j=powers.ue_receive_w * seconds * downlink.cell_ues,
        whole=sent.whole,
        cloud_s=cloud_s,
        cells_s=float(cells.seconds),
        cloud_bits=float(sent.cloud),
        servers_j=servers_j(powers, cloud_s=cloud_s, cells_s=seconds, hears=sent.hears & (sent.cloud > 0)),
    )


def broadcast_seconds(
    downlink: Downlink, hears: BoolArray, step_bits: FloatArray | float, bandwidth_hz: float
) -> FloatArray:
    """Seconds of the broadcasts to each of many sets of edges, `hears` [n, K], of steps [n] or of one size.

    To four digits, where one broadcast's (`broadcast_time`) are exact.
    """
    sent = _multicasts(downlink, hears, np.asarray(step_bits, dtype=np.float64))
    cloud_s = _cloud_s(downlink, sent, bandwidth_hz)
    if downlink.sharing is not None:
        cells_s = [float(_on_air(downlink, row, bandwidth_hz, close=_QUICK).seconds) for row in sent.cells]
        return np.asarray(cloud_s + np.array(cells_s))
    return np.asarray(cloud_s + _on_air(downlink, sent.cells, bandwidth_hz, close=_QUICK).seconds)


def foreseen(plan: "Plan", downlink: Downlink, hears: BoolArray, bandwidth_hz: float) -> "Plan":
    """The plan with the seconds that its broadcast will take, if all it has scheduled arrive and `hears` hear."""
    step_bits = downlink.step(int(plan.scheduled.sum()), plan.coding, plan.step_coding)
    return replace(plan, broadcast_s=broadcast_time(downlink, hears, step_bits, bandwidth_hz).seconds)


def foretold(problem: "RoundProblem", plan: "Plan") -> "Plan":
    """The plan with the seconds of its broadcast to those that it wishes to hear, where the way down is known."""
    if problem.downlink is None:
        return plan
    hears = plan.scheduled
    if plan.broadcast == "all":
        hears = np.ones_like(plan.scheduled) if plan.hears is None else plan.hears
    return foreseen(plan, problem.downlink, hears, problem.bandwidth_hz)


def _multicasts(downlink: Downlink, hears: BoolArray, step_bits: FloatArray) -> _Multicasts:
    model = downlink.model_bits
    hears = hears & (downlink.cell_ues > 0)
    step = np.minimum(step_bits, model)[..., None]
    needs = np.where(hears & downlink.backhaul, np.minimum(downlink.edge_bits + step, model), 0.0)
    whole = needs >= model
    cloud = np.where(whole.any(axis=-1), model, 0.0) + np.where(whole, 0.0, needs).max(axis=-1, initial=0.0)
    own = np.where(whole, model, np.minimum(downlink.cell_bits + step, model)) + downlink.again_bits
    return _Multicasts(hears, cloud, np.where(hears, own, 0.0), whole)


def _on_air(downlink: Downlink, bits: FloatArray, bandwidth_hz: float, *, close: float = CLOSE) -> OnAir:
    """The cells' multicasts: each on a band of its own, or groups of cells."""
    if downlink.sharing is None:
        return together(bits, np.broadcast_to(downlink.cell_snr_hz, bits.shape), bandwidth_hz, close=close)
    assert downlink.numbers is not None
    return shared(downlink.sharing, downlink.numbers, bits, bandwidth_hz, close=close)


def _cloud_s(downlink: Downlink, sent: _Multicasts, bandwidth_hz: float) -> FloatArray:
    """Seconds of the cloud's multicast over all of the band, at the rate of the worst edge that hears it."""
    worst_hz = np.where(sent.hears, downlink.edge_snr_hz, np.inf).min(axis=-1, initial=np.inf)
    sends = (sent.cloud > 0) & np.isfinite(worst_hz)
    rate = rate_bps(np.asarray(bandwidth_hz), np.where(sends, worst_hz, 1.0))
    return np.where(sends, sent.cloud / rate, 0.0)
