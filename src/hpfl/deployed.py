"""One real run at the cloud, from its file to its results: listen, train, watch, write down; a restart goes on."""

import logging
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from hpfl.config import Experiment, idle_settings
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.deliveries import StoppedError
from hpfl.deployment.deployed_run import Deployment, build_deployment
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.node_parts import edge_roster, ue_roster
from hpfl.deployment.real_executor import DeployedExecutor
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.status import Board, write_status
from hpfl.reporting.figures import draw_at_the_end
from hpfl.reporting.folder import RUN_ID, SUMMARY, UES
from hpfl.reporting.journal import Journal
from hpfl.reporting.store import RunStore
from hpfl.reporting.summary import environment, run_summary, ue_figures
from hpfl.reporting.table import write_table
from hpfl.training.cloud_step import DivergedError
from hpfl.training.loop import train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

Listening = Callable[[int], None]
"""Told the port once the cloud listens."""


@dataclass
class Stop:
    """Asks a cloud to end after its round; safe to call from a signal handler."""

    deployment: Deployment | None = None
    is_asked: bool = False

    def ask(self) -> None:
        """End after the round, or at once where the cloud is only waiting."""
        self.is_asked = True
        if self.deployment is not None:
            executor = self.deployment.executor
            executor.loop.loop.call_soon_threadsafe(executor.cloud.stopping.set)


def run_cloud(settings: CloudNodeSettings, *, stop: Stop, listening: Listening = lambda port: None) -> bool:
    """Train with real edges as the file says, or go on where a killed cloud left off; whether all rounds are done."""
    out = Path(settings.out)
    with LoopThread() as loop, RunStore.open(out, resume=True) as store:
        experiment = SharedWork(settings)
        audit = AuditLog(out, settings.audit)
        deployment = build_deployment(settings, experiment, loop, run=_run_id(out), audit=audit)
        stop.deployment = deployment
        for line in idle_settings(experiment.config):
            log("idle setting", level=logging.WARNING, told=line)
        board = _board(settings, experiment, deployment)
        deployment.executor.on_timing = board.took
        watch = _Watch(settings, experiment, store, board, stop)
        state = watch.recovered(deployment.start)
        audit.start(deployment.executor.prepare(state))
        deployment.cloud.metrics.serve(settings.metrics)
        listening(loop.run(deployment.cloud.start()))
        writing, completed, lost = loop.start(board.keep_writing(out)), False, False
        try:
            state = _trained(deployment, state, watch)
            completed = state.round >= experiment.config.training.rounds
            if completed and not (out / SUMMARY).exists():
                _write(store, experiment.config, deployment, watch.records, state)
                draw_at_the_end(out, lambda note: log("figures", note=note))
            while completed and settings.serve and not stop.is_asked:
                time.sleep(0.2)
        except DivergedError:
            lost = True
            store.write_summary(
                _summary(experiment.config, deployment, watch.records, completed=False) | {"diverged": True}
            )
            raise
        finally:
            watch.close()
            writing.cancel()
            write_status(out, board.text())
            loop.run(deployment.cloud.stop(completed=completed or lost))
    return completed


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the run after its round; what was accepted is kept."""
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.getsignal(kind) for kind in kinds}

    def on_signal(number: int, _frame: FrameType | None) -> None:
        log("stop asked for", signal=signal.Signals(number).name)
        stop.ask()

    for kind in kinds:
        signal.signal(kind, on_signal)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


class _Watch:
    """Keeps the records of a real run, saves when it is time, and tells the board."""

    def __init__(
        self, settings: CloudNodeSettings, experiment: SharedWork, store: RunStore, board: Board, stop: Stop
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self._every, self._rounds = settings.checkpoint_every, experiment.config.training.rounds
        self._journal = Journal(store, experiment.config)
        self._board, self._stop = board, stop

    def recovered(self, start: TrainState) -> TrainState:
        """The newest whole checkpoint, or the start."""
        state, self.records = self._journal.recovered(start, lambda note: log("checkpoint", note=note))
        self._journal.write_config()
        self._board.at(state.round, self._rounds)
        log("starting", round=state.round)
        return state

    def close(self) -> None:
        """Close what the rounds were written to."""
        self._journal.close()

    def after_round(self, state: TrainState, record: RoundRecord) -> bool:
        """Record, save when it is time, and say whether to go on."""
        self._journal.append(record)
        self.records.append(record.to_json())
        if state.round % self._every == 0 or self._stop.is_asked or state.round == self._rounds:
            self._journal.save(state)
        self._board.at(state.round, self._rounds)
        log("round done", round=state.round, aggregated=list(record.aggregated), latency_s=record.latency_s)
        return not self._stop.is_asked


def _trained(deployment: Deployment, state: TrainState, watch: _Watch) -> TrainState:
    kept = state

    def after_round(state: TrainState, record: RoundRecord) -> bool:
        nonlocal kept
        kept = state
        return watch.after_round(state, record)

    try:
        return train(state, deployment.parts, deployment.settings, after_round)
    except StoppedError:
        return kept


def _run_id(out: Path) -> str:
    """The name of this run, which every message carries; drawn once and kept with the results."""
    path = out / RUN_ID
    if not path.exists():
        path.write_text(secrets.token_hex(8), encoding="ascii")
    return path.read_text(encoding="ascii")


def _board(settings: CloudNodeSettings, experiment: SharedWork, deployment: Deployment) -> Board:
    config = experiment.config
    ues = {name: number for k in range(config.network.edges) for name, number in ue_roster([], config, k).items()}
    edges = edge_roster(settings.edges, config)
    return Board(deployment.cloud, edges=edges, ues=ues, update_bytes=experiment.spec.nbytes)


def _write(
    store: RunStore, config: Experiment, deployment: Deployment, records: list[dict[str, Any]], state: TrainState
) -> None:
    executor = deployment.executor
    spec = executor.cloud.task.spec
    store.write_model({name: part.clone() for name, part in spec.unflatten(state.params).items()})
    write_table(store.out / UES, _ue_table(config, executor, state))
    store.write_summary(_summary(config, deployment, records, completed=True))


def _summary(
    config: Experiment, deployment: Deployment, records: list[dict[str, Any]], *, completed: bool
) -> dict[str, Any]:
    executor = deployment.executor
    size, metrics = executor.cloud.task.spec.num_parameters, executor.metrics
    return {
        **run_summary(config, records, completed=completed, num_parameters=size, metrics=metrics),
        "test_samples": "those each UE holds; a UE whose file names no data has its simulated twin's",
        "idle_settings": list(idle_settings(config)),
        "deployed": True,
        "median_measured_over_planned": _median_ratio(executor),
        "environment": environment(),
    }


def _median_ratio(executor: DeployedExecutor) -> float | None:
    ratios = [timing.measured_s / timing.planned_s for timing in executor.timings if timing.planned_s > 0]
    return statistics.median(ratios) if ratios else None


def _ue_table(config: Experiment, executor: DeployedExecutor, state: TrainState) -> dict[str, Any]:
    found = executor.evaluation()
    counts = config.network.ues_of_edges
    return {
        "ue": np.arange(config.network.num_ues),
        "edge": np.repeat(np.arange(config.network.edges), counts),
        **ue_figures(found),
        "energy_j": state.joules,
    }
