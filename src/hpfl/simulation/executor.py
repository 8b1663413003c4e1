"""Plays a round in virtual time: real gradients, a drawn channel, a clock that only computes."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.learning import Cohort
from hpfl.network.channel import Fading, PathLoss
from hpfl.network.latency import compute_s
from hpfl.network.links import Links
from hpfl.network.topology import Fleet
from hpfl.planning.problem import Plan
from hpfl.rng import Streams
from hpfl.simulation.clock import Clock, Work, joules_of
from hpfl.training.edge import EdgeSettings, edge_updates, member_weights
from hpfl.training.loop import received
from hpfl.training.state import EdgeUpdate, Observation, Outcome, TrainState

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Radio:
    """The channel of a run: path loss on both hops, fading, noise."""

    ue_path: PathLoss
    edge_path: PathLoss
    fading: Fading
    noise_w_per_hz: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """Sizes of the work: bits of an update on each hop, and samples a UE's edge round touches."""

    ue_bits: float
    edge_bits: float
    touched_samples: FloatArray
    sample_bits: float


@dataclass(frozen=True, kw_only=True)
class SimulatedExecutor:
    """Stands behind the loop's `Executor`; everything it must remember is in the `TrainState` it is given."""

    fleet: Fleet
    radio: Radio
    load: Load
    clock: Clock
    cohort: Cohort
    edge_settings: EdgeSettings
    streams: Streams

    def observe(self, state: TrainState) -> Observation:
        """Awaiting edges compute their updates; fading is drawn anew."""
        pending, importance = self._computed(state)
        work, clock = self.clock.remaining(state.clock, self._fresh_work(), state.awaiting)
        return Observation(links=self._links(state.round, work), pending=pending, importance=importance, clock=clock)

    def execute(self, state: TrainState, observation: Observation, plan: Plan) -> Outcome:
        """Let the clock carry the plan out; the arrived edges' updates are read from what was pending."""
        progress = self.clock.advance(observation.clock, observation.links, plan)
        joules = np.zeros(self.fleet.num_ues)
        members = observation.links.members
        joules[members] = joules_of(progress, self.fleet.cpu_hz[members])
        edges = np.flatnonzero(progress.arrived)
        weights = self._edge_weights()
        return Outcome(
            arrivals=tuple(
                EdgeUpdate(
                    member=int(edge),
                    base_round=int(state.base_round[edge]),
                    update=observation.pending[edge],
                    weight=float(weights[edge]),
                    importance=float(observation.importance[edge]),
                )
                for edge in edges
            ),
            latency_s=progress.latency_s,
            uplink_bits=progress.uplink_bits,
            joules=joules,
            clock=progress.memory,
        )

    def broadcast(self, state: TrainState, edges: BoolArray) -> TrainState:
        """Downlinks take no time in the paper's model (section 3.3)."""
        return received(state, edges)

    def _computed(self, state: TrainState) -> tuple[torch.Tensor, FloatArray]:
        """Pending updates and importance once the awaiting edges have computed on the current model."""
        if not state.awaiting.any():
            return state.pending, state.importance
        edges = np.flatnonzero(state.awaiting)
        members = np.flatnonzero(state.awaiting[self.fleet.edge_of_ue])
        result = edge_updates(
            self.cohort,
            state.params,
            members=members,
            edge_of_member=np.searchsorted(edges, self.fleet.edge_of_ue[members]),
            weights=member_weights(self.fleet.num_samples[members], self.edge_settings),
            base_round=state.round,
            settings=self.edge_settings,
            streams=self.streams,
        )
        rows = torch.as_tensor(edges, device=state.pending.device)
        importance = state.importance.copy()
        importance[edges] = result.importance
        return state.pending.index_copy(0, rows, result.update), importance

    def _edge_weights(self) -> FloatArray:
        weights = member_weights(self.fleet.num_samples, self.edge_settings)
        if self.edge_settings.weighting == "uniform":
            return np.ones(self.fleet.num_edges)
        totals = np.bincount(self.fleet.edge_of_ue, weights=weights, minlength=self.fleet.num_edges)
        return np.asarray(totals, dtype=np.float64)

    def _fresh_work(self) -> Work:
        fleet, load = self.fleet, self.load
        return Work(
            compute_s=compute_s(
                load.touched_samples,
                cycles_per_bit=fleet.cycles_per_bit,
                sample_bits=load.sample_bits,
                cpu_hz=fleet.cpu_hz,
            ),
            ue_bits=np.full(fleet.num_ues, load.ue_bits),
            edge_bits=np.full(fleet.num_edges, load.edge_bits),
        )

    def _links(self, round_number: int, work: Work) -> Links:
        fleet, radio = self.fleet, self.radio
        ue_fading = radio.fading(self.streams.at("fading/ue", round_number), fleet.num_ues)
        edge_fading = radio.fading(self.streams.at("fading/edge", round_number), fleet.num_edges)
        return Links(
            edge_gain=radio.edge_path.gain(fleet.edge_distance_m) * edge_fading,
            edge_power_w=fleet.edge_power_w,
            edge_noise_w_per_hz=np.full(fleet.num_edges, radio.noise_w_per_hz),
            edge_bits=work.edge_bits,
            members=np.arange(fleet.num_ues, dtype=np.int64),
            edge_of_ue=fleet.edge_of_ue,
            ue_gain=radio.ue_path.gain(fleet.ue_distance_m) * ue_fading,
            ue_power_w=fleet.ue_power_w,
            ue_noise_w_per_hz=np.full(fleet.num_ues, radio.noise_w_per_hz),
            ue_bits=work.ue_bits,
            compute_s=work.compute_s,
        )
