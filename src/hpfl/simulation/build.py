"""From a configuration and a data set to everything a simulated run needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.config import Config
from hpfl.config.fields import distribution
from hpfl.data.dataset import Dataset, to_float
from hpfl.data.partition import PartitionSettings, Shards, make_shards, make_test_shards
from hpfl.learning import Cohort, Evaluation, LocalTraining, Task, TestData, make_task
from hpfl.network.distributions import whole_numbers
from hpfl.network.topology import Fleet, FleetSpec, make_fleet
from hpfl.planning.planners import PLANNERS
from hpfl.planning.scripted import SCRIPT
from hpfl.rng import Streams
from hpfl.simulation.evaluator import Evaluator
from hpfl.simulation.living import make_executor
from hpfl.simulation.radio import Recorder
from hpfl.training.cloud import CloudSettings
from hpfl.training.loop import Parts
from hpfl.training.state import TrainState, initial_state

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Population:
    """Who the UEs are: their machines, their training and test samples, and how many of each label they have."""

    fleet: Fleet
    shards: Shards
    test_shards: Shards
    label_counts: IntArray


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A run that is ready to start."""

    task: Task
    population: Population
    parts: Parts
    settings: CloudSettings
    start: TrainState
    evaluate_ues: Callable[[torch.Tensor], Evaluation]


def build_simulation(
    config: Config,
    dataset: Dataset,
    *,
    device: torch.device,
    stopwatch: Callable[[], float],
    record: Recorder | None = None,
) -> Simulation:
    """Draw the network, deal the data, and put the parts of the round together; `config` is resolved.

    `record` is told of the gains, compute times and availability that a trace of the run holds.
    """
    streams = Streams(config.training.seed)
    population = make_population(config, dataset, streams)
    dtype = torch.float64 if config.learning.dtype == "float64" else torch.float32
    task = make_task(
        config.learning.model,
        config.learning.loss,
        input_shape=dataset.input_shape,
        num_outputs=dataset.num_classes or 1,
    )
    cohort = _cohort(config, task, dataset, population.shards, device=device, dtype=dtype)
    evaluate = _evaluator(config, cohort, dataset, population)
    params = task.initial_parameters(streams.at("model")).to(device=device, dtype=dtype)
    executor = make_executor(
        config, task, cohort, population.fleet, sample_bits=float(dataset.sample_bits), record=record
    )
    return Simulation(
        task=task,
        population=population,
        parts=Parts(
            executor=executor,
            planner=PLANNERS.get(config.planning.planner),
            evaluate=evaluate.summary,
            streams=streams,
            stopwatch=stopwatch,
        ),
        settings=cloud_settings(config),
        start=initial_state(params, num_edges=config.network.edges, num_ues=config.network.num_ues).but(
            memory={SCRIPT: config.planning.script} if config.planning.script else {}
        ),
        evaluate_ues=evaluate.everyone,
    )


def make_population(config: Config, dataset: Dataset, streams: Streams) -> Population:
    """Deal the training and test samples, then draw the machines."""
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
    counts = shards.label_counts(_labels(dataset), dataset.num_classes or 1)
    test_shards = make_test_shards(
        dataset.test_targets, counts, test_samples=config.evaluation.test_samples, streams=streams
    )
    fleet = make_fleet(_fleet_spec(config), shards.sizes, streams)
    return Population(fleet=fleet, shards=shards, test_shards=test_shards, label_counts=counts)


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


def _labels(dataset: Dataset) -> IntArray:
    if dataset.targets.dtype == np.int64:
        return np.asarray(dataset.targets, dtype=np.int64)
    return np.zeros(len(dataset.targets), dtype=np.int64)


def _fleet_spec(config: Config) -> FleetSpec:
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


def _cohort(
    config: Config, task: Task, dataset: Dataset, shards: Shards, *, device: torch.device, dtype: torch.dtype
) -> Cohort:
    return Cohort(
        task,
        local_training(config),
        inputs=torch.from_numpy(to_float(dataset, dataset.inputs[shards.order])),
        targets=torch.from_numpy(dataset.targets[shards.order]),
        shards=shards,
        device=device,
        dtype=dtype,
        memory_gb=config.learning.memory_gb,
    )


def _evaluator(config: Config, cohort: Cohort, dataset: Dataset, population: Population) -> Evaluator:
    """The evaluator of a run: all UEs, or as many as the configuration says, with a cohort of their own."""
    ues, count = None, config.evaluation.ues
    shards = population.test_shards
    if 0 < count < population.fleet.num_ues:
        ues = Streams(config.training.seed).at("evaluation").choice(population.fleet.num_ues, count)
        own = population.shards.take(ues)
        cohort = _cohort(config, cohort.task, dataset, own, device=cohort.device, dtype=cohort.samples.dtype)
        shards = shards.take(ues)
    test = TestData(
        torch.from_numpy(to_float(dataset, dataset.test_inputs[shards.order])),
        torch.from_numpy(dataset.test_targets[shards.order]),
        shards,
    )
    return Evaluator(config=config, cohort=cohort, test=test, ues=ues, num_ues=population.fleet.num_ues)
