"""Small networks without data: learners that only remember what they were asked, and intervals given by hand."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hpfl.learning.uplink import Uplink, UplinkStep
from hpfl.network.channel import CHANNELS, ChannelSettings
from hpfl.network.distributions import Constant, Uniform
from hpfl.network.downlink import Powers
from hpfl.network.links import Links
from hpfl.network.path_losses import PathLoss
from hpfl.network.radio import Radio
from hpfl.network.topology import FleetSpec, make_fleet
from hpfl.planning.planners import PLANNERS
from hpfl.planning.problem import Plan
from hpfl.rng import Streams
from hpfl.simulation.learners import Pending
from hpfl.simulation.virtual_executor import Mishaps, SimulatedExecutor
from hpfl.simulation.work_sizes import WorkSizes
from hpfl.training.broadcasting import Broadcasting
from hpfl.training.clock import CLOCKS, ClockSettings, Span
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.loop import Parts
from hpfl.training.state import initial_state
from hpfl.training.step_coding import StepCoding

BITS = 1e5
MODEL_BITS = 3 * 32.0


@dataclass
class Ledger:
    """Stands in for the learners: an update is (base round, edge, number of UEs), and every request is kept."""

    num_ues: int
    asked: list = field(default_factory=list)
    counted = None

    def renewed(self, pending, edges, params, *, members, edge_of, base_round):
        update, importance = pending.update.clone(), pending.importance.copy()
        for edge in np.flatnonzero(edges):
            own = members[edge_of == edge]
            assert own.size, f"edge {edge} computes without UEs"
            update[edge] = torch.tensor([base_round, edge, own.size], dtype=update.dtype)
            importance[edge] = 1.0 + edge
            self.asked.append((base_round, int(edge), own.tolist()))
        return Pending(update=update, importance=importance)

    def without_lost(self, pending, edges, memory, *, members, edge_of, base_round):
        for held in np.unique(base_round[edges]):
            assert held in memory["held/rounds"]
            on_it = edges & (base_round == held)
            pending = self.renewed(pending, on_it, None, members=members, edge_of=edge_of, base_round=int(held))
        return pending

    def releases(self, members, edge_of, starts, num_ues):
        return None

    def edge_weights(self, members, edge_of, num_edges):
        return np.ones(num_edges)


@dataclass
class World:
    executor: SimulatedExecutor
    settings: CloudSettings
    parts: Parts
    state: object


def make_world(
    *,
    seed=0,
    edges=4,
    ues_per_edge=3,
    clock="event",
    trigger="scheduled",
    broadcast="scheduled",
    planner="random",
    max_edges=2,
    staleness_bound=3,
    deadline_s=0.0,
    coherence_s=0.0,
    life=None,
    mishaps=None,
    loses_ues=False,
    cpu_hz=None,
    record=None,
    script=None,
    spectrum="fixed",
):
    """A network of a few edges; `life` is a function from (fleet, streams) to a `Life`."""
    streams = Streams(seed)
    spec = FleetSpec(
        ues_per_edge=np.full(edges, ues_per_edge),
        cpu_hz=cpu_hz or Uniform(2e8, 2e9),
        cycles_per_bit=Constant(20.0),
        ue_power_w=Constant(0.01),
        edge_power_w=Constant(0.01),
        ue_distance_m=Uniform(2.0, 50.0),
        edge_distance_m=Uniform(50.0, 200.0),
    )
    fleet = make_fleet(spec, np.full(edges * ues_per_edge, 20), streams)
    executor = SimulatedExecutor(
        fleet=fleet,
        radio=Radio(
            channel=CHANNELS.get("path-loss-and-fading")(
                ChannelSettings(
                    ue_path=PathLoss(gain_at_1m_linear=10**-3.6, exponent=2.0),
                    edge_path=PathLoss(gain_at_1m_linear=1e-4, exponent=2.0),
                )
            ),
            noise_w_per_hz=4e-21,
            coherence_s=coherence_s,
            record=record,
        ),
        load=WorkSizes(
            ue_bits=BITS,
            edge_bits=BITS,
            touched_samples=np.full(fleet.num_ues, 20.0),
            sample_bits=6272.0,
            record=record,
        ),
        clock=CLOCKS.get(clock)(
            ClockSettings(trigger=trigger, max_edges=max_edges, deadline_s=deadline_s, coherence_s=coherence_s)
        ),
        learners=Ledger(fleet.num_ues),
        streams=streams,
        staleness_bound=staleness_bound,
        life=None if life is None else life(fleet, streams),
        mishaps=mishaps or Mishaps(),
        loses_ues=loses_ues,
    )
    settings = CloudSettings(
        rounds=10**6,
        outer_lr=1e-9,
        bandwidth_hz=1e6,
        rho=0.8,
        phi=1.0,
        max_edges=max_edges,
        staleness_bound=staleness_bound,
        broadcast=broadcast,
        trigger=trigger,
        spectrum=spectrum,
        steady=coherence_s == 0,
    )
    parts = Parts(
        executor=executor,
        planner=PLANNERS.get(planner, **({} if script is None else {"script": script}))
        if isinstance(planner, str)
        else planner,
        evaluate=lambda state: None,
        streams=streams,
        stopwatch=lambda: 0.0,
    )
    state = initial_state(torch.zeros(3, dtype=torch.float64), num_edges=edges, num_ues=fleet.num_ues)
    return World(executor, settings, parts, state)


def by_hand(
    *,
    edge_of,
    compute_s,
    ue_bits,
    ue_rate,
    edge_bits,
    edge_rate,
    scheduled=None,
    must=None,
    ue_fails=None,
    edge_fails=None,
    switch_s=None,
):
    """An interval with whole numbers: a link with `r` Hz at SNR 1 carries exactly `r` bit/s."""
    edge_of, K = np.asarray(edge_of), len(edge_bits)
    scheduled = np.ones(K, dtype=bool) if scheduled is None else np.asarray(scheduled, dtype=bool)
    ue_rate, edge_rate = np.asarray(ue_rate, dtype=float), np.asarray(edge_rate, dtype=float)
    links = Links(
        edge_gain=edge_rate,
        edge_power_w=np.ones(K),
        edge_noise_w_per_hz=np.ones(K),
        edge_bits=np.asarray(edge_bits, dtype=float),
        members=np.arange(edge_of.size),
        edge_of_ue=edge_of,
        ue_gain=ue_rate,
        ue_power_w=np.ones(edge_of.size),
        ue_noise_w_per_hz=np.ones(edge_of.size),
        ue_bits=np.asarray(ue_bits, dtype=float),
        compute_s=np.asarray(compute_s, dtype=float),
    )
    unknown = np.full(K, np.nan)
    plan = Plan(
        planner="hand",
        scheduled=scheduled,
        ue_bandwidth_hz=np.where(scheduled[edge_of], ue_rate, 0.0),
        edge_bandwidth_hz=np.where(scheduled, edge_rate, 0.0),
        ue_power_w=np.ones(edge_of.size),
        upload_s=np.full(edge_of.size, np.nan),
        edge_upload_s=unknown,
        edge_phase_s=unknown,
        latency_s=unknown,
        round_latency_s=np.nan,
        switch_s=None if switch_s is None else np.asarray(switch_s, dtype=float),
        objective=0.0,
        lower_bound=0.0,
        relative_gap=0.0,
    )
    return Span(
        links=links,
        plan=plan,
        start_s=0.0,
        must=np.zeros(K, dtype=bool) if must is None else np.asarray(must, dtype=bool),
        whole_edge_bits=np.full(K, 8.0),
        ue_fails=None if ue_fails is None else np.asarray(ue_fails, dtype=bool),
        edge_fails=None if edge_fails is None else np.asarray(edge_fails, dtype=bool),
    )


def memory_of(interval):
    """An event clock's memory in which exactly the interval's work is left."""
    links = interval.links
    return {"compute_s": links.compute_s, "ue_bits": links.ue_bits, "edge_bits": links.edge_bits}


class Halves(UplinkStep):
    """A codec for tests: numbers rounded to halves, 8 bits each, what is left out is kept."""

    def numbers_kept(self, n):
        return n

    def encode(self, numbers, kept, draws):
        coded = ((numbers + kept) * 2).round() / 2
        return coded, {}, numbers + kept - coded


class Packed(Uplink):
    def bits(self, n, bits_per_number):
        return 8 * n


CODEC = Packed((("halves", Halves()),))


def charged(world, *, ue_failure=0.0, coded=False, **changes):
    """The world with broadcasts that take time, and with steps that travel coded where asked."""
    coding = StepCoding(
        codings=(CODEC,), bits_per_number=32, num_travelling=3, forwards=True, streams=world.executor.streams
    )
    given = {
        "powers": Powers(),
        "noise_w_per_hz": 4e-21,
        "bandwidth_hz": world.settings.bandwidth_hz,
        "model_bits": MODEL_BITS,
        "step_bits": coding.step_bits if coded else (MODEL_BITS,),
        "message_bits": coding.message_bits if coded else (np.inf,),
        "cpu_hz": world.executor.fleet.cpu_hz,
        "streams": world.executor.streams,
        "ue_failure": ue_failure,
    }
    executor = replace(world.executor, downlink=Broadcasting(**(given | changes)))
    world.parts = replace(world.parts, executor=executor)
    world.executor = executor
    if coded:
        world.settings = replace(world.settings, step_coding=coding, outer_lr=0.1)
    return world
