"""From a cloud's file and the experiment to the parts of a real round."""

import time
from dataclasses import dataclass, replace

import numpy as np

from hpfl.assembly import arrivals_projection, cloud_settings, make_radio, menu_on_air, start_state, torch_dtype
from hpfl.config import Experiment
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.cloud import Cloud
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import LinkModel, node_cost
from hpfl.deployment.real_executor import DeployedExecutor
from hpfl.deployment.settings import CloudNodeSettings, SettingsError
from hpfl.downlinks import broadcasting, step_coding
from hpfl.private_runs import ledger_of
from hpfl.rng import Streams
from hpfl.training.cloud_step import CloudSettings
from hpfl.training.evaluation_summary import EvaluationSummary, evaluation_is_due, held_out_columns, summary_columns
from hpfl.training.foretold import Foretold
from hpfl.training.loop import Evaluate, Parts
from hpfl.training.state import TrainState


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A real run that is ready to start."""

    cloud: Cloud
    executor: DeployedExecutor
    parts: Parts
    settings: CloudSettings
    start: TrainState


def build_deployment(settings: CloudNodeSettings, experiment: SharedWork, loop: LoopThread, *, run: str) -> Deployment:
    """Everything the cloud needs to play rounds with real edges; it does not listen yet."""
    config = experiment.config
    refuse_what_only_a_simulator_can(config)
    streams = Streams(config.training.seed)

    async def made() -> Cloud:
        return Cloud(settings, experiment, run)

    cloud = loop.run(made())
    links = LinkModel(
        config=config,
        menu=menu_on_air(config, experiment.sending),
        cost=node_cost(config, experiment.task),
        radio=make_radio(config),
        streams=streams,
    )
    coding, foretold = step_coding(config, experiment.sending), _foretold(experiment, streams)
    new = experiment.newcomers
    executor = DeployedExecutor(
        cloud=cloud,
        loop=loop,
        links=links,
        downlink=broadcasting(config, experiment.sending, links.cpu_hz(), coding),
        updates=experiment.updates,
        usual_noise=() if foretold is None else foretold.usual(experiment.sending),
        delays=() if foretold is None else foretold.delays(experiment.sending),
        settings=settings,
        outer_lr=config.learning.outer_lr,
        staleness_bound=config.planning.staleness_bound,
        metrics=experiment.metrics,
        newcomers=np.isin(np.arange(config.network.num_ues), sorted(new)) if new else None,
    )
    params = experiment.task.initial_parameters(streams.at("model")).to(torch_dtype(config))
    nothing = params.new_zeros((config.network.edges, 0))  # pending updates stay at their edges
    return Deployment(
        cloud=cloud,
        executor=executor,
        parts=Parts(
            executor=executor,
            planner=config.part("planning.planner"),
            evaluate=_every(executor, config),
            streams=streams,
            stopwatch=time.perf_counter,
            columns=summary_columns(experiment.metrics) + (held_out_columns(experiment.metrics) if new else ()),
            projection=arrivals_projection(config, experiment.sending.spec.num_parameters, params.device),
            ledger=ledger_of(config, deployed=True),
        ),
        settings=replace(cloud_settings(config), step_coding=coding),
        start=start_state(params, config).but(pending=nothing),
    )


def _foretold(experiment: SharedWork, streams: Streams) -> Foretold | None:
    """What is known of the menu's codings before anybody has computed, where the planner asks."""
    sending, chains = experiment.sending, experiment.foretold
    backhaul = experiment.config.network.backhaul
    return Foretold(chains, sending.travelling, streams, backhaul) if chains else None


def refuse_what_only_a_simulator_can(config: Experiment) -> None:
    """A real network has a life of its own: chances, walks and virtual clocks cannot be imposed on it."""
    if config.training.trigger != "scheduled":
        raise SettingsError('training.trigger is "first"; a deployed cloud waits for the edges it called')
    if config.life.on:
        raise SettingsError("section life is in use; a deployed network leaves, fails and moves by itself")
    if config.hostile.on:
        raise SettingsError(f'hostile.attack is "{config.hostile.attack}"; attacks are a test bench of simulated runs')
    if config.privacy.adaptive:
        raise SettingsError("privacy.adaptive is true; nodes clip to one norm: give privacy.clip_norm, or simulate it")
    if config.privacy.on and config.training.edge_rounds > 1:
        raise SettingsError(
            f"training.edge_rounds is {config.training.edge_rounds}; deployed private edges have one: simulate it"
        )
    for name in ("trace", "write_trace"):
        if getattr(config.network, name):
            raise SettingsError(f"network.{name} is given; only a simulation is replayed from a trace or writes one")
    if config.network.coherence_s:
        raise SettingsError(
            "network.coherence_s is given; a deployed cloud plans once a round: give network.coherence_rounds"
        )


def _every(executor: DeployedExecutor, config: Experiment) -> Evaluate:
    every, rounds = config.evaluation.every, config.training.rounds

    def evaluate(state: TrainState) -> EvaluationSummary | None:
        due = evaluation_is_due(state.round, every=every, rounds=rounds)
        return executor.evaluate(state.params, state.round) if due else None

    return evaluate
