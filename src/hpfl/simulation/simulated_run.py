"""From a configuration and a data set to everything a simulated run needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from hpfl.assembly import (
    arrivals_projection,
    cloud_settings,
    fleet_spec,
    local_training,
    metrics_of,
    products,
    sample_cost,
    sending_of,
    start_state,
    task_of,
    torch_dtype,
)
from hpfl.config import Config, Experiment, resolve
from hpfl.data.dataset import Dataset, to_float
from hpfl.data.partition import Shards
from hpfl.dealing import Dealt, deal
from hpfl.downlinks import step_coding
from hpfl.learning import Computes, Evaluation, Task, TestData, make_cohort
from hpfl.learning.sending import Sending
from hpfl.network.radio import Recorder
from hpfl.network.topology import Fleet, make_fleet
from hpfl.rng import Streams
from hpfl.simulation.evaluator import Evaluator, Told
from hpfl.simulation.make_executor import make_executor
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.loop import Parts
from hpfl.training.remembered import KeptRows, first_errors, first_rows
from hpfl.training.state import TrainState

MakeCohort = Callable[..., Computes]
"""Makes a cohort with the options of `Cohort`: `make_cohort`, or one that has workers elsewhere compute."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A run that is ready to start: who the UEs are, what they learn, and who plays the round.

    `heard_by` gives the same parts where every evaluation is told, UE by UE.
    """

    task: Task
    fleet: Fleet
    dealt: Dealt
    parts: Parts
    settings: CloudSettings
    start: TrainState
    evaluate_ues: Callable[[TrainState], Evaluation]
    heard_by: Callable[[Told], Parts]


def build_simulation(
    given: Config | Experiment,
    dataset: Dataset,
    *,
    device: torch.device,
    stopwatch: Callable[[], float],
    record: Recorder | None = None,
    make: MakeCohort = make_cohort,
) -> Simulation:
    """Draw the network, deal the data, and put the parts of the round together.

    `record` is told of the gains, compute times and availability that a trace of the run holds. `make` makes those who
    compute, here or elsewhere.
    """
    config = resolve(given)
    streams = Streams(config.training.seed)
    dealt = deal(config, dataset, streams)
    fleet = make_fleet(fleet_spec(config), dealt.shards.sizes, streams)
    task = task_of(config, input_shape=dataset.input_shape, num_outputs=dataset.num_outputs)
    sending = sending_of(config, task, device)
    cohort, evaluate = _cohorts(config, task, sending, dataset, dealt, make=partial(make, device=device))
    params = task.initial_parameters(streams.at("model")).to(device=device, dtype=torch_dtype(config))
    example = torch.from_numpy(to_float(dataset, dataset.inputs[:2])), torch.from_numpy(dataset.targets[:2])
    cost = sample_cost(config, task, dataset.sample_bits, example)
    coding = step_coding(config, sending)
    executor = make_executor(config, sending, cohort, fleet, cost=cost, record=record, coding=coding)
    parts = Parts(
        executor=executor,
        planner=config.part("planning.planner"),
        evaluate=evaluate.summary,
        streams=streams,
        stopwatch=stopwatch,
        columns=summary_columns(evaluate.metrics),
        projection=arrivals_projection(config, sending.spec.num_parameters, device),
    )
    return Simulation(
        task=task,
        fleet=fleet,
        dealt=dealt,
        parts=parts,
        settings=replace(cloud_settings(config), step_coding=coding),
        start=start_state(params, config).but(kept=_first_kept(sending, params, fleet)),
        evaluate_ues=evaluate.everyone,
        heard_by=lambda told: replace(parts, evaluate=replace(evaluate, told=told).summary),
    )


def _first_kept(sending: Sending, params: torch.Tensor, fleet: Fleet) -> KeptRows:
    """What UEs and edges keep in round 0."""
    errors = first_errors(sending, params, fleet.num_ues, fleet.num_edges)
    return {**first_rows(sending, params, fleet.num_ues), **errors}


def _cohorts(
    config: Experiment, task: Task, sending: Sending, dataset: Dataset, dealt: Dealt, *, make: MakeCohort
) -> tuple[Computes, Evaluator]:
    """Those who train, and who evaluates: all of them, or a cohort of as many as the configuration says."""
    ues, count, num_ues = None, config.evaluation.ues, config.network.num_ues
    metrics, test_shards = metrics_of(config), dealt.test_shards
    if 0 < count < num_ues:
        ues = Streams(config.training.seed).at("evaluation").choice(num_ues, count)
        test_shards = test_shards.take(ues)
    test = TestData(
        torch.from_numpy(to_float(dataset, dataset.test_inputs[test_shards.order])),
        torch.from_numpy(dataset.test_targets[test_shards.order]),
        test_shards,
    )

    def cohort(shards: Shards, test: TestData | None) -> Computes:
        return make(
            task,
            local_training(config),
            inputs=torch.from_numpy(to_float(dataset, dataset.inputs[shards.order])),
            targets=torch.from_numpy(dataset.targets[shards.order]),
            shards=shards,
            test=test,
            method=sending.method,
            uplink=sending.uplink,
            dtype=torch_dtype(config),
            memory_gb=config.learning.memory_gb,
            block_ues=config.learning.block_ues,
            products=products(config),
            metrics=metrics,
        )

    trained = cohort(dealt.shards, test if ues is None else None)
    evaluated = trained if ues is None else cohort(dealt.shards.take(ues), test)
    return trained, Evaluator(config=config, cohort=evaluated, test=test, ues=ues, num_ues=num_ues, metrics=metrics)
