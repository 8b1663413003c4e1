"""Broadcasts that take time: what is known of the way down before a plan, and what telling the edges takes after it."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.channel import Gains
from hpfl.network.downlink import Powers, in_cells, least_in_cells
from hpfl.network.energy import compute_j
from hpfl.network.failures import struck
from hpfl.network.path_losses import PathGain
from hpfl.network.places import NEAREST_M, Places
from hpfl.planning.broadcast import Broadcast, Downlink, broadcast_time
from hpfl.planning.shared_cells import SharedCells
from hpfl.rng import Streams
from hpfl.training.clock import Clock, ClockMemory
from hpfl.training.held_rounds import HeldRounds
from hpfl.training.loop import received
from hpfl.training.state import Heard, Observation, TrainState


@dataclass(frozen=True, kw_only=True)
class Broadcasting:
    """The constants of the way down: powers (W), noise (W/Hz), band (Hz), bits, and the chance that a UE misses it.

    `step_bits` and `message_bits` are by entry of the menu of codings (`planning/broadcast.py`). Where `reuse` cells
    send over the same band at a time, `cross_path` is the gain by distance from an edge to UEs of other cells.
    """

    powers: Powers
    noise_w_per_hz: float
    bandwidth_hz: float
    model_bits: float
    step_bits: tuple[float, ...]
    message_bits: tuple[float, ...]
    cpu_hz: FloatArray
    streams: Streams
    again_bits: float = 0.0
    backhaul: bool = True
    ue_failure: float = 0.0
    reuse: int = 1
    cross_path: PathGain | None = None

    def known(self, state: TrainState, under: IntArray, gains: Gains, places: Places) -> Downlink:
        """What can be known before a plan: the gains are those of the way up, of all UEs and backhauls."""
        K = gains.edge.size
        books = HeldRounds.of(state.clock, num_ues=under.size, num_edges=K)
        edge_bits, cell_bits = books.lacking(under, state.round, self.model_bits)
        ue_snr_hz = self.powers.edge_w * (gains.ue / self.noise_w_per_hz)
        return Downlink(
            edge_snr_hz=self.powers.cloud_w * (gains.edge / self.noise_w_per_hz),
            cell_snr_hz=least_in_cells(ue_snr_hz, under, K),
            edge_bits=edge_bits,
            cell_bits=cell_bits,
            cell_ues=in_cells(under, K),
            model_bits=self.model_bits,
            step_bits=self.step_bits,
            message_bits=self.message_bits,
            powers=self.powers,
            again_bits=self.again_bits,
            backhaul=self.backhaul,
            numbers=np.arange(K),
            sharing=None if self.reuse == 1 else self._sharing(under, ue_snr_hz, places),
        )

    def _sharing(self, under: IntArray, snr_hz: FloatArray, places: Places) -> SharedCells:
        """Who disturbs whom: the mean gain by distance of a UE's hop, over the way from another edge to it."""
        there = np.flatnonzero(under >= 0)
        edge_xy_m = places.edge_xy_m

        def cross_hz(edge: int) -> FloatArray:
            assert self.cross_path is not None
            away_m = places.ue_xy_m - edge_xy_m[edge]
            distance_m = np.maximum(np.hypot(away_m[:, 0], away_m[:, 1]), NEAREST_M)
            gain = self.cross_path.gain(distance_m, self.streams.at("path/cross", edge))
            return np.asarray(self.powers.edge_w * (gain[there] / self.noise_w_per_hz))

        angle = np.arctan2(edge_xy_m[:, 1], edge_xy_m[:, 0])
        return SharedCells(self.reuse, under[there], snr_hz[there], angle, cross_hz)

    def told(
        self,
        state: TrainState,
        edges: BoolArray,
        observation: Observation,
        *,
        step_bits: float,
        clock: Clock | None = None,
    ) -> Heard:
        """The state once `edges` and the UEs under them were told of the new model; some of these may miss it.

        By a virtual `clock`, uploads in flight pause while the band is used, and computing goes on.
        """
        assert observation.downlink is not None
        assert observation.under is not None
        under = observation.under
        found = broadcast_time(observation.downlink, edges, step_bits, self.bandwidth_hz)
        listens = (under >= 0) & found.hears[under]
        misses = listens & struck(self.streams.at("failure/broadcast", state.round), under.size, self.ue_failure)
        books = HeldRounds.of(state.clock, num_ues=under.size, num_edges=edges.size).after(
            state.round,
            ues=listens & ~misses,
            edges=found.hears,
            whole=found.whole,
            step_bits=step_bits,
            model_bits=self.model_bits,
        )
        memory, computed_s = self._waited(state.clock, observation, edges, found.seconds, clock)
        return Heard(
            state=received(state.but(clock={**memory, **books.written()}), edges),
            seconds=found.seconds,
            bits=found.bits,
            joules=self._received_j(found, listens, under) + compute_j(computed_s, self.cpu_hz),
            downlink_j=found.joules,
            hears=found.hears,
            cell_bits=found.cell_bits,
            num_missed=int(misses.sum()),
            cloud_s=found.cloud_s,
            cell_hz=found.cell_hz,
        )

    def _received_j(self, found: Broadcast, listens: BoolArray, under: IntArray) -> FloatArray:
        on_air = listens & (found.cell_bits[under] > 0)
        return np.where(on_air, self.powers.ue_receive_w * found.cells_s, 0.0)

    def _waited(
        self, memory: ClockMemory, observation: Observation, edges: BoolArray, seconds: float, clock: Clock | None
    ) -> tuple[ClockMemory, FloatArray]:
        """The clock's memory after a wait, and the seconds that each UE computed in it."""
        links, wait = observation.links, getattr(clock, "wait", None)
        if wait is None:
            return memory, np.zeros(self.cpu_hz.size)
        memory, computed_s = wait(memory, seconds, links.members[~edges[links.edge_of_ue]])
        return memory, computed_s
