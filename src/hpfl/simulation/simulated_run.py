"""From a configuration and a data set to everything a simulated run needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from hpfl.arrays import BoolArray
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
from hpfl.attacks.attack import Labelled
from hpfl.config import Config, Experiment, resolve
from hpfl.data.dataset import Dataset, to_float
from hpfl.data.partition import Shards
from hpfl.dealing import Dealt, deal
from hpfl.downlinks import step_coding
from hpfl.learning import Computes, Evaluation, Task, TestData, make_cohort
from hpfl.learning.sending import Sending
from hpfl.network.radio import Recorder
from hpfl.network.topology import Fleet, make_fleet
from hpfl.private_runs import ledger_of
from hpfl.rng import Streams
from hpfl.row_folder import RowFolder
from hpfl.simulation.attack_success import measured_of
from hpfl.simulation.evaluator import Evaluator, Told
from hpfl.simulation.hostile_cohort import HostileCohort
from hpfl.simulation.hostility import Hostility, aimed_tests, hostility_of, only_of, poisoned_samples
from hpfl.simulation.kept_rows import first_kept, most_together
from hpfl.simulation.make_executor import make_executor, newcomers_of
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.evaluation_summary import held_out_columns, summary_columns
from hpfl.training.loop import Parts
from hpfl.training.state import TrainState

MakeCohort = Callable[..., Computes]
"""Makes a cohort with the options of `Cohort`: `make_cohort`, or one that has workers elsewhere compute."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A run that is ready to start: who the UEs are, what they learn, and who plays the round.

    `newcomers` [N] never train (None: everybody does). `heard_by` gives the same parts where every evaluation is told,
    UE by UE. `hostile` [N] are UEs that are hostile or sit under a hostile edge; None: nobody does.
    """

    task: Task
    fleet: Fleet
    dealt: Dealt
    parts: Parts
    settings: CloudSettings
    start: TrainState
    evaluate_ues: Callable[[TrainState], Evaluation]
    newcomers: BoolArray | None
    heard_by: Callable[[Told], Parts]
    hostile: BoolArray | None = None


def build_simulation(
    given: Config | Experiment,
    dataset: Dataset,
    *,
    device: torch.device,
    stopwatch: Callable[[], float],
    record: Recorder | None = None,
    make: MakeCohort = make_cohort,
    rows: RowFolder | None = None,
) -> Simulation:
    """Draw the network, deal the data, and put the parts of the round together.

    `record` is told of the gains, compute times and availability that a trace of the run holds. `make` makes those who
    compute, here or elsewhere. `rows` is where what UEs keep lies, where memory is too small (None: a scratch folder).
    """
    config = resolve(given)
    streams = Streams(config.training.seed)
    dealt = deal(config, dataset, streams)
    fleet = make_fleet(fleet_spec(config), dealt.shards.sizes, streams)
    task = task_of(config, input_shape=dataset.input_shape, num_outputs=dataset.num_outputs)
    sending = sending_of(config, task, device)
    hostility = hostility_of(config)
    making = _Making(config, task, sending, dataset, partial(make, device=device))
    cohort, evaluate = _cohorts(making, dealt, hostility)
    evaluate = replace(evaluate, newcomers=newcomers_of(config, fleet))
    params = task.initial_parameters(streams.at("model")).to(device=device, dtype=torch_dtype(config))
    example = torch.from_numpy(to_float(dataset, dataset.inputs[:2])), torch.from_numpy(dataset.targets[:2])
    cost = sample_cost(config, task, dataset.sample_bits, example)
    coding = step_coding(config, sending)
    executor = make_executor(
        config, sending, cohort, fleet, cost=cost, record=record, coding=coding, hostility=hostility
    )
    twice = executor.learners.computes_again
    kept = first_kept(config, sending, params, fleet, twice=twice, rows=rows)
    learners = replace(executor.learners, together=most_together(config, kept))
    executor = replace(executor, learners=learners)
    parts = Parts(
        executor=executor,
        planner=config.part("planning.planner"),
        evaluate=evaluate.summary,
        streams=streams,
        stopwatch=stopwatch,
        columns=_columns(evaluate),
        projection=arrivals_projection(config, sending.spec.num_parameters, device),
        ledger=ledger_of(config),
    )
    return Simulation(
        task=task,
        fleet=fleet,
        dealt=dealt,
        parts=parts,
        settings=replace(cloud_settings(config), step_coding=coding),
        start=start_state(params, config).but(kept=kept),
        evaluate_ues=evaluate.everyone,
        newcomers=evaluate.newcomers,
        heard_by=lambda told: replace(parts, evaluate=replace(evaluate, told=told).summary),
        hostile=None if hostility is None else hostility.affected,
    )


def _columns(evaluate: Evaluator) -> tuple[str, ...]:
    """What records tell of an evaluation."""
    own = summary_columns(evaluate.metrics)
    return own if evaluate.newcomers is None else own + held_out_columns(evaluate.metrics)


@dataclass(frozen=True)
class _Making:
    """What makes cohorts of an experiment."""

    config: Experiment
    task: Task
    sending: Sending
    dataset: Dataset
    make: MakeCohort

    def cohort(self, shards: Shards, test: TestData | None = None, samples: Labelled | None = None) -> Computes:
        """The UEs of `shards`, with their own samples or with those given."""
        config, chosen = self.config, samples or self.samples(shards)
        return self.make(
            self.task,
            local_training(config),
            inputs=chosen.inputs,
            targets=chosen.targets,
            shards=shards,
            test=test,
            method=self.sending.method,
            uplink=self.sending.uplink,
            dtype=torch_dtype(config),
            memory_gb=config.learning.memory_gb,
            block_ues=config.learning.block_ues,
            products=products(config),
            metrics=metrics_of(config),
        )

    def samples(self, shards: Shards) -> Labelled:
        """Training samples as shards have them arranged."""
        inputs = torch.from_numpy(to_float(self.dataset, self.dataset.inputs[shards.order]))
        targets = torch.from_numpy(self.dataset.targets[shards.order])
        return Labelled(inputs, targets, self.dataset.num_classes or 0)

    def hostile(self, trained: Computes, hostility: Hostility, shards: Shards) -> Computes:
        """The cohort in which some are hostile, with what those train on where it is something else."""
        poisoned = None
        if hostility.poisons:
            own = only_of(shards, hostility.affected)
            poisoned = self.cohort(own, samples=poisoned_samples(self.config, hostility, self.samples(own)))
        return HostileCohort(honest=trained, hostility=hostility, travelling=self.sending.travelling, poisoned=poisoned)


def _cohorts(making: _Making, dealt: Dealt, hostility: Hostility | None) -> tuple[Computes, Evaluator]:
    """Those who train, and who evaluates: all of them, or a cohort of as many as the configuration says."""
    config, dataset = making.config, making.dataset
    ues, count, num_ues = None, config.evaluation.ues, config.network.num_ues
    test_shards = dealt.test_shards
    if 0 < count < num_ues:
        ues = Streams(config.training.seed).at("evaluation").choice(num_ues, count)
        test_shards = test_shards.take(ues)
    inputs = torch.from_numpy(to_float(dataset, dataset.test_inputs[test_shards.order]))
    tested = Labelled(inputs, torch.from_numpy(dataset.test_targets[test_shards.order]), dataset.num_classes or 0)
    test = TestData(tested.inputs, tested.targets, test_shards)
    trained = making.cohort(dealt.shards, test if ues is None else None)
    evaluated = trained if ues is None else making.cohort(dealt.shards.take(ues), test)
    evaluator = Evaluator(
        config=config,
        cohort=evaluated,
        test=test,
        ues=ues,
        num_ues=num_ues,
        metrics=measured_of(config),
        aimed=None if hostility is None else aimed_tests(config, hostility, tested, test_shards),
    )
    return trained if hostility is None else making.hostile(trained, hostility, dealt.shards), evaluator
