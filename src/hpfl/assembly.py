"""What a configuration means for simulated and real runs alike: constants, machines, parts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.cell_sums import cell_sum_of
from hpfl.config import ConfigError, Experiment
from hpfl.config.fields import distribution
from hpfl.config.uplinks import AUTO, chooses_coding, num_codecs
from hpfl.learning import BoundMetric, LearningError, LocalTraining, Products, Task, counted_passes, make_task
from hpfl.learning.codecs.menu import ENTRIES, MENU, UNCHOSEN
from hpfl.learning.masking.cell_sum import CellSum
from hpfl.learning.method import Method, is_objective, is_silent, num_travelling, roles_of, shared_beside
from hpfl.learning.sending import Sending
from hpfl.learning.uplink import IDENTITY, Uplink
from hpfl.network.channel import ChannelSettings
from hpfl.network.path_losses import PathGain, Site
from hpfl.network.radio import Radio
from hpfl.network.topology import FleetSpec
from hpfl.planning.planners import PLANNERS
from hpfl.registry import GIVEN
from hpfl.rng import Streams
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.combine import COMBINES
from hpfl.training.edge_round import EdgeSettings
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.record import check_columns
from hpfl.training.sketch import BITS_PER_FLOAT, Projection, make_projection
from hpfl.training.state import TrainState, initial_state
from hpfl.training.watching import Watcher
from hpfl.units import dbm_to_w

_ARRIVAL_WIDTH = 256  # floats of the sketches that the cloud makes itself: they are not sent
_UE_HEIGHT_M, _EDGE_HEIGHT_M = 1.5, 10.0
"""Antennas of TR 38.901, Table 7.2-1; an edge that talks to the cloud stands as high as a micro base station."""


def task_of(config: Experiment, *, input_shape: tuple[int, ...], num_outputs: int) -> Task:
    """The model and the loss of a configuration for inputs of a shape."""
    for key, value in (("learning.model", config.learning.model), ("learning.loss", config.learning.loss)):
        if isinstance(value, str) and value.startswith(GIVEN):
            raise ConfigError(
                f'{key} is "{value}": it was handed over in Python; assign it again, or name module:callable'
            )
    model, loss = config.part("learning.model"), config.part("learning.loss")
    task = make_task(model, loss, input_shape=input_shape, num_outputs=num_outputs)
    return task.with_beside(shared_beside(_own_method(config), task.spec))


def fleet_spec(config: Experiment) -> FleetSpec:
    """The distributions machines are drawn from."""
    network = config.network
    return FleetSpec(
        ues_per_edge=network.ues_of_edges,
        cpu_hz=distribution(network.cpu_hz),
        cycles_per_bit=distribution(network.cycles_per_bit),
        ue_power_w=distribution(network.ue_power_w),
        edge_power_w=distribution(network.edge_power_w),
        ue_distance_m=distribution(network.ue_distance_m),
        edge_distance_m=distribution(network.edge_distance_m),
    )


def make_radio(config: Experiment) -> Radio:
    """The radio of an experiment: its channel on its path losses, its noise, and how long a fade lasts."""
    network = config.network
    paths = ChannelSettings(
        ue_path=ue_path(config),
        edge_path=_path(config, "edge_path_loss", gain_db=network.edge_gain_db, terminal_m=_EDGE_HEIGHT_M),
    )
    return Radio(
        channel=config.made("network.channel", paths),
        noise_w_per_hz=dbm_to_w(network.noise_dbm_per_hz),
        coherence_rounds=network.coherence_rounds,
        coherence_s=network.coherence_s,
    )


def ue_path(config: Experiment) -> PathGain:
    """The mean gain by distance between UEs and edges."""
    return _path(config, "ue_path_loss", gain_db=config.network.ue_gain_db, terminal_m=_UE_HEIGHT_M)


def _path(config: Experiment, key: str, *, gain_db: float, terminal_m: float) -> PathGain:
    exponent, carrier_ghz = config.network.path_loss_exponent, config.network.carrier_ghz
    site = Site(gain_db=gain_db, exponent=exponent, carrier_ghz=carrier_ghz, terminal_m=terminal_m)
    try:
        made: PathGain = config.made(f"network.{key}", site)
    except ImportError as error:  # it needs a package that is not there
        raise ConfigError(str(error)) from error
    return made


def cloud_settings(config: Experiment) -> CloudSettings:
    """The cloud's constants."""
    return CloudSettings(
        rounds=config.training.rounds,
        outer_lr=config.learning.outer_lr,
        bandwidth_hz=config.network.bandwidth_hz,
        rho=config.planning.rho,
        phi=config.phi,
        max_edges=config.planning.max_edges,
        staleness_bound=config.planning.staleness_bound,
        broadcast=config.training.broadcast,
        trigger=config.training.trigger,
        combine=config.part("training.combine"),
        staleness_discount=config.training.staleness_discount,
        spectrum=config.network.spectrum,
        steady=config.network.coherence_s == 0,
    )


def local_training(config: Experiment) -> LocalTraining:
    """A UE's local steps, as its method takes them."""
    learning = config.learning
    training = LocalTraining(
        inner_lr=learning.inner_lr,
        outer_lr=learning.outer_lr,
        inner_steps=learning.inner_steps,
        local_steps=learning.local_steps,
        local_epochs=learning.local_epochs,
        batch_size=learning.batch_size or None,
        batches=learning.batches,
    )
    method = config.made("learning.method")
    return method.as_objective(training) if is_objective(method) else training


def sending_of(config: Experiment, task: Task, device: torch.device) -> Sending:
    """What UEs keep and send, by their method and their uplink; what its codecs cannot do is refused here."""
    method = _own_method(config)
    if is_silent(method):  # what is not sent is not coded
        return Sending.of(task.spec, method, IDENTITY, device)
    steps, codecs = config.made_in_row("learning.uplink"), num_codecs(config.chosen("learning.uplink"))
    split = len(steps) - codecs
    codings = _menu(config, MENU) if config.learning.uplink == AUTO else (Uplink.of(steps[split:]),) if codecs else ()
    sending = Sending.of(task.spec, method, Uplink.of(steps[:split]), device, codings=codings)
    numbers = num_travelling(sending.method, sending.spec)
    for chain in codings:
        try:
            chain.bits(numbers, config.network.bits_per_parameter)
        except LearningError as error:
            raise ConfigError(f"learning.uplink: {error}") from error
    return sending


def written_menu(config: Experiment) -> list[list[tuple[str, dict[str, Any]]]]:
    """The chains of `Sending.codings`, each codec by its name and options, as they could be written down."""
    if config.learning.uplink == AUTO:
        return [[(name, dict(options)) for name, options in entry] for entry in _menu(config, ENTRIES)]
    chosen = config.chosen("learning.uplink")
    codecs = chosen[len(chosen) - num_codecs(chosen) :]
    chain = [(part.name, {} if options is None else options.model_dump()) for part, options in codecs]
    return [chain] if chain else []


def _menu(config: Experiment, entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """What "auto" leaves to the planner: all entries, or ternary if it chooses none, as it does of sums under masks."""
    if not config.secure.on and chooses_coding(config.planning.planner, config.training.clock):
        return entries
    return entries[UNCHOSEN : UNCHOSEN + 1]


def foretold_chains(config: Experiment, sending: Sending) -> tuple[Uplink, ...]:
    """The chains whose noise UEs foretell: those of the menu, where the planner asks and may hear of single UEs."""
    return sending.codings if _foretells(config) else ()


def _foretells(config: Experiment) -> bool:
    return bool(PLANNERS.part(config.planning.planner).traits["codings"]) and not config.secure.on


def _own_method(config: Experiment) -> Method | None:
    """The method of an experiment; None stands for one that is an objective."""
    method = config.made("learning.method")
    return None if is_objective(method) else method


def arrivals_projection(config: Experiment, num_parameters: int, device: torch.device) -> Projection | None:
    """What the cloud sketches arrived updates with, where the planner learns from them and not from UEs' sketches."""
    if not config.planning.arrivals:
        return None
    streams = Streams(config.training.seed)
    return make_projection(num_parameters, streams, width=_ARRIVAL_WIDTH).to(device)


def tells_variances(config: Experiment) -> bool:
    """Whether an upload says, in a float for each coding of the menu, what that adds to it: no sketch has said so."""
    return _foretells(config) and not config.planning.sketches


class BitsOnAir(NamedTuple):
    """Bits of a round's uploads: of a UE in all edge rounds, and of an edge (0 where the one edge is the cloud)."""

    ue: float
    edge: float


def bits_on_air(config: Experiment, sending: Sending) -> BitsOnAir:
    """Of an upload that is coded as the menu's first entry says, or not at all."""
    return menu_on_air(config, sending)[0]


def menu_on_air(config: Experiment, sending: Sending) -> tuple[BitsOnAir, ...]:
    """The same for every entry of the menu: both hops are coded; what is not takes what the uplink leaves of it."""
    numbers, bits = num_travelling(sending.method, sending.spec), config.network.bits_per_parameter
    told = float(BITS_PER_FLOAT * len(sending.codings)) if tells_variances(config) else 0.0
    cell = cell_sum_of(config, sending)

    def own(chain: Uplink) -> int:
        """Under masks a UE sends words of a sum."""
        plain = sending.uplink if chain.is_identity else chain
        return plain.bits(numbers, bits) if cell is None else cell.upload_bits

    return tuple(
        BitsOnAir(
            ue=config.training.edge_rounds * float(own(chain)) + told,
            edge=float(chain.bits(numbers, bits)) + told if config.network.backhaul else 0.0,
        )
        for chain in sending.codings or (IDENTITY,)
    )


def edge_settings(config: Experiment, *, memory_gb: float, cell: CellSum | None = None) -> EdgeSettings:
    """The edges' constants; a rule that needs all updates at once may take so much memory; `cell`: sums under masks."""
    training = config.training
    streams = COMBINES.part(training.edge_combine).traits["streams"]
    return EdgeSettings(
        outer_lr=config.learning.outer_lr,
        edge_rounds=training.edge_rounds,
        weighting=training.weighting,
        combine=None if streams else config.part("training.edge_combine"),
        cell=cell,
        memory_gb=memory_gb,
    )


def watchers_of(config: Experiment, folder: Path | None) -> list[Watcher]:
    """Those that the experiment names to watch a run whose results go to a folder."""
    return [watcher for _, watcher in config.made_in_row("training.watchers", folder)]


@dataclass(frozen=True)
class SampleCost:
    """What one training sample is charged: its bits, and the passes over it that a local step takes."""

    bits: float
    passes: float


def sample_cost(config: Experiment, task: Task, bits: int, example: tuple[torch.Tensor, torch.Tensor]) -> SampleCost:
    """One pass for each batch that is drawn, or all that a step is counted to take on an example (inputs, targets)."""
    training, method = local_training(config), _own_method(config)
    counted = config.learning.charged_passes == "counted"
    drawn = float(len(roles_of(method, training)))
    return SampleCost(float(bits), counted_passes(task, training, *example, method=method) if counted else drawn)


def touched_samples(config: Experiment, num_samples: IntArray, passes: float) -> FloatArray:
    """Samples a UE's edge phase is charged for: shards or batches, times passes, local iterations, edge rounds."""
    drawn, epochs = config.learning.batch_size, config.learning.local_epochs
    if epochs:  # which touch every sample once
        return np.asarray(passes * num_samples * epochs * config.training.edge_rounds, dtype=np.float64)
    per_step = passes * (np.minimum(num_samples, drawn) if drawn else num_samples)
    steps = config.learning.local_steps * config.training.edge_rounds
    return np.asarray(per_step * steps, dtype=np.float64)


def torch_dtype(config: Experiment) -> torch.dtype:
    """Precision of parameters and updates."""
    return torch.float64 if config.learning.dtype == "float64" else torch.float32


def products(config: Experiment) -> Products:
    """What a GPU may round the factors of products to."""
    dtype = config.learning.dtype
    return dtype if dtype == "tf32" or dtype == "bf16" else "full"  # noqa: PLR1714  the type checker follows this one


def metrics_of(config: Experiment) -> tuple[BoundMetric, ...]:
    """What is measured on the UEs' test samples; every node derives the columns of its figures from these."""
    metrics = tuple(BoundMetric.of(part, options) for part, options in config.chosen("evaluation.metrics"))
    check_columns(summary_columns(metrics))
    return metrics


def start_state(params: torch.Tensor, config: Experiment) -> TrainState:
    """Round 0."""
    return initial_state(params, num_edges=config.network.edges, num_ues=config.network.num_ues)
