"""From a configuration and a data set to everything a simulated run needs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hpfl.assembly import (
    Dealt,
    cloud_settings,
    deal,
    fleet_spec,
    local_training,
    metrics_of,
    products,
    sample_cost,
    start_state,
    task_of,
    torch_dtype,
)
from hpfl.config import Config, Experiment, resolve
from hpfl.data.dataset import Dataset, to_float
from hpfl.data.partition import Shards
from hpfl.learning import Computes, Evaluation, Task, TestData, make_cohort
from hpfl.network.radio import Recorder
from hpfl.network.topology import Fleet, make_fleet
from hpfl.rng import Streams
from hpfl.simulation.evaluator import Evaluator
from hpfl.simulation.make_executor import make_executor
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.evaluation_summary import summary_columns
from hpfl.training.loop import Parts
from hpfl.training.state import TrainState


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A run that is ready to start: who the UEs are, what they learn, and who plays the round."""

    task: Task
    fleet: Fleet
    dealt: Dealt
    parts: Parts
    settings: CloudSettings
    start: TrainState
    evaluate_ues: Callable[[torch.Tensor], Evaluation]


def build_simulation(
    given: Config | Experiment,
    dataset: Dataset,
    *,
    device: torch.device,
    stopwatch: Callable[[], float],
    record: Recorder | None = None,
) -> Simulation:
    """Draw the network, deal the data, and put the parts of the round together.

    `record` is told of the gains, compute times and availability that a trace of the run holds.
    """
    config = resolve(given)
    streams = Streams(config.training.seed)
    dealt, dtype = deal(config, dataset, streams), torch_dtype(config)
    fleet = make_fleet(fleet_spec(config), dealt.shards.sizes, streams)
    task = task_of(config, input_shape=dataset.input_shape, num_outputs=dataset.num_outputs)
    cohort, evaluate = _cohorts(config, task, dataset, dealt, device=device, dtype=dtype)
    params = task.initial_parameters(streams.at("model")).to(device=device, dtype=dtype)
    example = torch.from_numpy(to_float(dataset, dataset.inputs[:2])), torch.from_numpy(dataset.targets[:2])
    cost = sample_cost(config, task, dataset.sample_bits, example)
    executor = make_executor(config, task, cohort, fleet, cost=cost, record=record)
    return Simulation(
        task=task,
        fleet=fleet,
        dealt=dealt,
        parts=Parts(
            executor=executor,
            planner=config.part("planning.planner"),
            evaluate=evaluate.summary,
            streams=streams,
            stopwatch=stopwatch,
            columns=summary_columns(evaluate.metrics),
        ),
        settings=cloud_settings(config),
        start=start_state(params, config),
        evaluate_ues=evaluate.everyone,
    )


def _cohorts(
    config: Experiment, task: Task, dataset: Dataset, dealt: Dealt, *, device: torch.device, dtype: torch.dtype
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
        return make_cohort(
            task,
            local_training(config),
            inputs=torch.from_numpy(to_float(dataset, dataset.inputs[shards.order])),
            targets=torch.from_numpy(dataset.targets[shards.order]),
            shards=shards,
            test=test,
            device=device,
            dtype=dtype,
            memory_gb=config.learning.memory_gb,
            products=products(config),
            metrics=metrics,
        )

    trained = cohort(dealt.shards, test if ues is None else None)
    evaluated = trained if ues is None else cohort(dealt.shards.take(ues), test)
    return trained, Evaluator(config=config, cohort=evaluated, test=test, ues=ues, num_ues=num_ues, metrics=metrics)
