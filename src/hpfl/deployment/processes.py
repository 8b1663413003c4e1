"""The processes of edges and UEs: from a node's file to a node that runs until the run is over or a signal comes."""

import asyncio
from functools import partial
from pathlib import Path

import safetensors.torch
import torch

from hpfl.deployment.data_check import check_own_data
from hpfl.deployment.deliveries import NobodyError
from hpfl.deployment.edge import Edge
from hpfl.deployment.freed_memory import share_one_heap
from hpfl.deployment.health import Health, serve_status
from hpfl.deployment.identity import check_own_certificate
from hpfl.deployment.learner import Learner
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork, stop_on_signals, until_stopped
from hpfl.deployment.own_data import own_data
from hpfl.deployment.own_store import OwnStore
from hpfl.deployment.readiness import edge_ready, ue_ready
from hpfl.deployment.settings import EdgeNodeSettings, SettingsError, UeNodeSettings
from hpfl.deployment.ue import Ue
from hpfl.deployment.visiting import global_model
from hpfl.learning import Kept


async def run_edge(settings: EdgeNodeSettings) -> None:
    """Run an edge; a signal ends it once what it is sending has gone."""
    share_one_heap()
    stop = asyncio.Event()
    stop_on_signals(stop)
    check_own_certificate(settings, serves=True, connects=True)
    edge = Edge(settings, SharedWork(settings))
    edge.ues.side.metrics.serve(settings.metrics, Health(asyncio.get_running_loop(), partial(edge_ready, edge)))
    await edge.start()
    await until_stopped(edge.run(), stop, edge.settle)


async def run_ue(settings: UeNodeSettings) -> None:
    """Run a UE; a signal ends it once what it is sending has gone."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    check_own_certificate(settings, serves=False, connects=True)
    experiment, learner = make_learner(settings)
    log("ready", samples=learner.num_samples, **({"held_out": True} if settings.number in experiment.newcomers else {}))
    ue = Ue(settings, experiment, learner)
    serve_status(settings.metrics, ue.metrics.registry, Health(asyncio.get_running_loop(), partial(ue_ready, ue)))
    await until_stopped(ue.run(), stop, ue.settle)


async def adapt_ue(settings: UeNodeSettings, out: Path) -> tuple[float, float]:
    """Fetch the global model, adapt it on this UE's own data, save it; accuracy before and after."""
    check_own_certificate(settings, serves=False, connects=True)
    experiment, learner = make_learner(settings)
    try:
        async with asyncio.timeout(settings.timing.patience_s):
            params = await global_model(settings, experiment, num_samples=learner.num_samples)
    except TimeoutError:
        raise NobodyError(f"no model came from {settings.edge} for {settings.timing.patience_s:g} s") from None
    own = (OwnStore(Path(settings.state), experiment.sending.numbers_kept).newest() or Kept()).method
    if settings.number in experiment.newcomers:
        own = learner.begun(params, experiment.config.training.rounds)
    accuracies = learner.accuracies(params, own)
    out.parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(learner.named(learner.adapted(params, own)), out, metadata={"format": "pt"})
    return accuracies


def make_learner(settings: UeNodeSettings) -> tuple[SharedWork, Learner]:
    """The experiment and this UE's own part in it."""
    torch.set_num_threads(settings.threads)
    experiment = SharedWork(settings)
    if settings.number >= experiment.config.network.num_ues:
        raise SettingsError(f"number is {settings.number}; the experiment has {experiment.config.network.num_ues} UEs")
    data = own_data(settings.data, experiment.config, settings.number, data_dir=settings.data_dir)
    check_own_data(data, experiment.task, experiment.shapes)
    return experiment, Learner(experiment.config, settings.number, data, experiment.task)
