"""From a configuration to the executor of its rounds: radio, load, clock and the life of the network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hpfl.arrays import BoolArray, IntArray
from hpfl.assembly import (
    SampleCost,
    bits_on_air,
    edge_settings,
    foretold_chains,
    make_radio,
    menu_on_air,
    torch_dtype,
    touched_samples,
)
from hpfl.cell_sums import cell_sum_of, sketch_sum_of
from hpfl.config import ConfigError, Experiment
from hpfl.config.life import LifeConfig
from hpfl.downlinks import broadcasting
from hpfl.learning import Computes
from hpfl.learning.sending import Sending
from hpfl.network.availability import TwoState
from hpfl.network.mobility import RandomWaypoint
from hpfl.network.newcomers import drawn_newcomers
from hpfl.network.radio import Recorder
from hpfl.network.sampling import Sampling
from hpfl.network.topology import Fleet
from hpfl.private_runs import cell_privacy, check_whole_numbers
from hpfl.quorums import quorum_of
from hpfl.rng import Streams
from hpfl.simulation.hostility import Hostility
from hpfl.simulation.learners import Learners
from hpfl.simulation.roster import Life
from hpfl.simulation.sketching import Sketching
from hpfl.simulation.trace import AVAILABLE, COMPUTE_S, EDGE_GAIN, UE_GAIN, Trace, read_trace
from hpfl.simulation.virtual_executor import Mishaps, SimulatedExecutor
from hpfl.simulation.work_sizes import WorkSizes
from hpfl.training.clock import ClockSettings
from hpfl.training.counted import Counted
from hpfl.training.edge_round import EdgeSettings, check_room
from hpfl.training.foretold import Foretold
from hpfl.training.sketch import BITS_PER_FLOAT, make_projection
from hpfl.training.step_coding import StepCoding

_KEPT_SHARE = 0.25  # of the memory, for updates kept beside what computes them


def make_executor(
    config: Experiment,
    sending: Sending,
    cohort: Computes,
    fleet: Fleet,
    *,
    cost: SampleCost,
    record: Recorder | None = None,
    coding: StepCoding | None = None,
    hostility: Hostility | None = None,
) -> SimulatedExecutor:
    """The executor of a resolved configuration; `record` is told of everything a trace holds.

    `coding` is how the cloud's step travels down (None: as the model), `hostility` who is hostile (None: nobody).
    """
    trace = _trace(config)
    streams = Streams(config.training.seed)
    loses_ues = config.life.loses_ues or trace.of(AVAILABLE) is not None
    if loses_ues and config.privacy.on:
        raise ConfigError(
            f'network.trace says who is there; with privacy.mechanism = "{config.privacy.mechanism}" nobody may be '
            "lost from an edge round: the same updates would leave the cell again without them"
        )
    bits = bits_on_air(config, sending)
    foretold = _foretold(config, sending, streams)
    newcomers = newcomers_of(config, fleet)
    needs = needs_of(config, fleet, newcomers)
    training = fleet.num_ues if newcomers is None else int((~newcomers).sum())
    return SimulatedExecutor(
        fleet=fleet,
        radio=replace(make_radio(config), ue_gain=trace.of(UE_GAIN), edge_gain=trace.of(EDGE_GAIN), record=record),
        load=WorkSizes(
            ue_bits=bits.ue,
            edge_bits=bits.edge,
            touched_samples=touched_samples(config, fleet.num_samples, cost.passes),
            sample_bits=cost.bits,
            compute_s=trace.of(COMPUTE_S),
            record=record,
            codings=menu_on_air(config, sending) if sending.codings else (),
            usual=() if foretold is None else foretold.usual(sending),
            delays=() if foretold is None else foretold.delays(sending),
        ),
        clock=config.made("training.clock", _clock_settings(config)),
        learners=Learners(
            cohort=cohort,
            settings=_edge_settings(config, sending, fleet, hostility),
            streams=streams,
            num_samples=fleet.num_samples,
            loses_ues=loses_ues,
            codings=sending.codings,
            travelling=sending.travelling,
            backhaul=config.network.backhaul,
            foretold=foretold,
            hostility=hostility,
            counted=Counted.by(sending, training),
        ),
        streams=streams,
        staleness_bound=config.planning.staleness_bound,
        life=_life(config.life, fleet, streams, trace=trace, record=record, newcomers=newcomers, needs=needs),
        mishaps=Mishaps(
            ue_failure=config.life.ue_failure, edge_failure=config.life.edge_failure, idle_s=config.life.idle_s
        ),
        loses_ues=loses_ues,
        sketching=_sketching(config, sending, streams, cohort.device, foretold),
        downlink=broadcasting(config, sending, fleet.cpu_hz, coding),
        newcomers=newcomers,
        needs=needs,
    )


def needs_of(config: Experiment, fleet: Fleet, newcomers: BoolArray | None) -> IntArray | None:
    """How many UEs each edge needs of those that train, [K], where it opens a sum of theirs alone; None: one."""
    if not config.secure.on:
        return None
    training = fleet.edge_of_ue if newcomers is None else fleet.edge_of_ue[~newcomers]
    return quorum_of(np.bincount(training, minlength=fleet.num_edges))


def newcomers_of(config: Experiment, fleet: Fleet) -> BoolArray | None:
    """The UEs that never train, bool [N]; None: everybody does."""
    count = config.data.held_out_ues
    return drawn_newcomers(count, fleet.edge_of_ue, Streams(config.training.seed)) if count else None


def _edge_settings(config: Experiment, sending: Sending, fleet: Fleet, hostility: Hostility | None) -> EdgeSettings:
    """The edges' constants; a combine rule that could not keep the updates of an edge's UEs is refused here.

    Where UEs are hostile the mean is given all updates as well, for these are crafted beside each other.
    """
    settings = edge_settings(
        config, memory_gb=_KEPT_SHARE * config.learning.memory_gb, cell=cell_sum_of(config, sending)
    )
    settings = replace(settings, private=cell_privacy(config, sending))
    check_whole_numbers(settings.private, settings.cell)
    if hostility is not None and hostility.of_ues.any():
        settings = replace(settings, combine=config.part("training.edge_combine"))
    counts, bytes_each = np.bincount(fleet.edge_of_ue), torch_dtype(config).itemsize
    check_room(settings, counts, num_parameters=sending.spec.num_parameters, bytes_each=bytes_each)
    return settings


def _foretold(config: Experiment, sending: Sending, streams: Streams) -> Foretold | None:
    """What foretells the noise of codings, where there are any and the planner asks."""
    if not foretold_chains(config, sending):
        return None
    return Foretold(sending.codings, sending.travelling, streams, config.network.backhaul)


def _sketching(
    config: Experiment, sending: Sending, streams: Streams, device: torch.device, foretold: Foretold | None
) -> Sketching | None:
    if not config.planning.sketches:
        return None
    numbers, width = sending.spec.num_parameters, config.planning.sketch_size
    cell = sketch_sum_of(config, width, config.secure.range)
    return Sketching(
        projection=make_projection(numbers, streams, width=width).to(device),
        more_floats=0 if foretold is None else len(foretold.chains),
        bandwidth_hz=config.network.bandwidth_hz,
        backhaul=config.network.backhaul,
        importance=config.planning.importance == "sketch",
        spectrum=config.network.spectrum,
        ue_bits=BITS_PER_FLOAT if cell is None else cell.bits,
    )


def _clock_settings(config: Experiment) -> ClockSettings:
    return ClockSettings(
        trigger=config.training.trigger,
        max_edges=config.planning.max_edges,
        deadline_s=config.life.deadline_s,
        coherence_s=config.network.coherence_s,
    )


def _trace(config: Experiment) -> Trace:
    if not config.network.trace:
        return Trace(Path(), {})
    trace = read_trace(Path(config.network.trace), num_ues=config.network.num_ues, num_edges=config.network.edges)
    for what in trace.values:
        known = trace.of(what)
        if known is not None:
            known((config.training.rounds - 1, 0))  # refused now rather than in the middle of the run
    return trace


def _life(
    life: LifeConfig,
    fleet: Fleet,
    streams: Streams,
    *,
    trace: Trace,
    record: Recorder | None,
    newcomers: BoolArray | None = None,
    needs: IntArray | None = None,
) -> Life | None:
    traced = trace.of(AVAILABLE)
    if not life.on and traced is None:
        return None
    leaves = TwoState(leave=life.leave, come_back=life.come_back) if life.leave else None
    speeds = (life.speed_m_per_s[0], life.speed_m_per_s[1])
    return Life(
        fleet=fleet,
        streams=streams,
        sampling=Sampling(fraction=life.sample_fraction, count=life.sample_count),
        availability=traced or leaves,
        mobility=RandomWaypoint.around(fleet, speeds, streams) if life.moves else None,
        edge_death=life.edge_death,
        record=record,
        newcomers=newcomers,
        needs=needs,
    )
