"""What a configuration means for simulated and real runs alike: constants, machines, who has which data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.config import Config
from hpfl.config.fields import distribution
from hpfl.data.dataset import Dataset
from hpfl.data.partition import PartitionSettings, Shards, as_labels, make_shards, make_test_shards
from hpfl.learning import LocalTraining, Products
from hpfl.network.distributions import whole_numbers
from hpfl.network.topology import FleetSpec
from hpfl.planning.estimates import UNPRICED
from hpfl.planning.scripted import SCRIPT
from hpfl.rng import Streams
from hpfl.training.cloud import CloudSettings
from hpfl.training.state import TrainState, initial_state

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """Who has which samples: training and test shards, and how many of each label a UE has."""

    shards: Shards
    test_shards: Shards
    label_counts: IntArray


def deal(config: Config, dataset: Dataset, streams: Streams) -> Dealt:
    """Deal the training and test samples among the UEs."""
    uniforms = streams.at("samples").uniform(config.network.num_ues)
    shards = make_shards(
        config.data.partitioner,
        dataset.targets,
        num_classes=dataset.num_classes,
        sizes=whole_numbers(distribution(config.data.samples_per_ue), uniforms),
        settings=PartitionSettings(
            labels_per_ue=config.data.labels_per_ue,
            concentration=config.data.concentration,
            disjoint=config.data.disjoint,
            edge_skew=config.data.edge_skew,
        ),
        streams=streams,
    )
    counts = shards.label_counts(as_labels(dataset.targets), dataset.num_classes or 1)
    test_shards = make_test_shards(
        dataset.test_targets, counts, test_samples=config.evaluation.test_samples, streams=streams
    )
    return Dealt(shards=shards, test_shards=test_shards, label_counts=counts)


def fleet_spec(config: Config) -> FleetSpec:
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


def cloud_settings(config: Config) -> CloudSettings:
    """The cloud's constants from a resolved configuration."""
    assert not isinstance(config.planning.phi, str)
    return CloudSettings(
        rounds=config.training.rounds,
        outer_lr=config.learning.outer_lr,
        bandwidth_hz=config.network.bandwidth_hz,
        rho=config.planning.rho,
        phi=config.planning.phi,
        max_edges=config.planning.max_edges,
        staleness_bound=config.planning.staleness_bound,
        broadcast=config.training.broadcast,
        trigger=config.training.trigger,
        aggregation=config.training.aggregation,
        staleness_discount=config.training.staleness_discount,
    )


def local_training(config: Config) -> LocalTraining:
    """A UE's local steps from a configuration."""
    learning = config.learning
    return LocalTraining(
        inner_lr=learning.inner_lr,
        outer_lr=learning.outer_lr,
        objective=learning.objective,
        inner_steps=learning.inner_steps,
        local_steps=learning.local_steps,
        batch_size=learning.batch_size or None,
        batches=learning.batches,
        hessian_free_delta=learning.hessian_free_delta,
    )


def touched_samples(config: Config, num_samples: IntArray) -> FloatArray:
    """Samples a UE's edge phase touches: whole shards or batches, times local iterations and edge rounds."""
    training = local_training(config)
    drawn = training.batch_size
    per_step = num_samples if drawn is None else np.minimum(num_samples, drawn) * len(training.roles)
    steps = training.local_steps * config.training.edge_rounds
    return np.asarray(per_step * steps, dtype=np.float64)


def torch_dtype(config: Config) -> torch.dtype:
    """Precision of parameters and updates."""
    return torch.float64 if config.learning.dtype == "float64" else torch.float32


def products(config: Config) -> Products:
    """What a GPU may round the factors of products to."""
    dtype = config.learning.dtype
    return dtype if dtype == "tf32" or dtype == "bf16" else "full"  # noqa: PLR1714  the type checker follows this one


def start_state(params: torch.Tensor, config: Config) -> TrainState:
    """Round 0, with what planners `scripted` and `fastest` are told in their memory."""
    state = initial_state(params, num_edges=config.network.edges, num_ues=config.network.num_ues)
    told: dict[str, Any] = {SCRIPT: config.planning.script} if config.planning.script else {}
    if config.planning.staleness_price == "none":
        told[UNPRICED] = True
    return state.but(memory=told)
