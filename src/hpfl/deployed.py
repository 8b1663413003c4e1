"""One real run at the cloud, from its file to its results: listen, train, watch, write down; a restart goes on."""

import logging
import re
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpfl import atomic
from hpfl.assembly import watchers_of
from hpfl.config import idle_settings
from hpfl.deployment.audit import LOG, AuditLog, logged_run
from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.deliveries import StoppedError
from hpfl.deployment.deployed_run import Deployment, build_deployment
from hpfl.deployment.health import Health
from hpfl.deployment.identity import check_own_certificate
from hpfl.deployment.logs import log
from hpfl.deployment.node import SharedWork
from hpfl.deployment.readiness import cloud_ready
from hpfl.deployment.real_executor import DeployedExecutor
from hpfl.deployment.run_watchers import Audited, RunLog, ServedMetrics
from hpfl.deployment.settings import CloudNodeSettings
from hpfl.deployment.status import Board
from hpfl.recorder import Listeners, RunRecorder, Subject
from hpfl.reporting.figures import draw_at_the_end
from hpfl.reporting.folder import RUN_ID
from hpfl.reporting.store import OutputError, RunStore
from hpfl.reporting.summary import environment
from hpfl.stopping import Stop, on_signals
from hpfl.training.cloud_step import DivergedError
from hpfl.training.evaluation_summary import EvaluationSummary
from hpfl.training.loop import AfterRound, Parts, train
from hpfl.training.state import TrainState
from hpfl.training.watching import Watcher

Listening = Callable[[int], None]
"""Told the port once the cloud listens."""

_LOOK_S = 0.2
_NAME = re.compile(r"[0-9a-f]{16}")


def run_cloud(
    settings: CloudNodeSettings,
    *,
    stop: Stop,
    listening: Listening = lambda port: None,
    watchers: Sequence[Watcher] = (),
) -> bool:
    """Train with real edges as the file says, or go on where a killed cloud left off; whether all rounds are done.

    `watchers` are told what happens and change nothing.
    """
    check_own_certificate(settings, serves=True, connects=False)
    out = Path(settings.out)
    with LoopThread() as loop, RunStore.open(out, resume=True) as store:
        experiment = SharedWork(settings)
        deployment = build_deployment(settings, experiment, loop, run=_run_id(out))
        stop.wake = _waking(deployment)
        for line in idle_settings(experiment.config):
            log("idle setting", level=logging.WARNING, told=line)
        board = _board(experiment, deployment)
        deployment.executor.on_timing = board.took
        cloud = deployment.cloud
        audit = AuditLog(out, settings.audit)
        health = Health(loop.loop, partial(cloud_ready, cloud, experiment.config.network.edges))
        served = ServedMetrics(cloud.metrics, settings.metrics, health, lambda: board.shown)
        keepers = [Audited(audit, deployment.executor), served]
        heard = [board, RunLog(), *watchers_of(experiment.config, out), *watchers]
        listeners = replace(_listeners(stop, keepers, heard), histories=[audit])
        recorder = RunRecorder(_subject(settings, experiment, deployment), store, listeners)
        state = recorder.open(deployment.start, resume=True)
        deployment.executor.prepare(state)
        recorder.started(state)
        try:
            listening(loop.run(cloud.start()))
        except BaseException as error:
            recorder.break_off(error)
            raise
        with _telling_the_end(deployment) as ending, board.on_show(out, loop):
            ending.is_final = _recorded(deployment, recorder, state, out)
            while ending.is_final and settings.serve and not stop.is_asked:
                time.sleep(_LOOK_S)
    return ending.is_final


def _recorded(deployment: Deployment, recorder: RunRecorder, state: TrainState, out: Path) -> bool:
    """Play the rounds, leave what they come to, and draw it; whether all are done."""
    parts = _heard_by(recorder, deployment)

    def play(state: TrainState, after_round: AfterRound) -> TrainState:
        try:
            return train(state, parts, deployment.settings, after_round)
        except StoppedError:
            return recorder.state or state

    result = recorder.recorded(state, play)
    if recorder.has_written:
        draw_at_the_end(out, lambda note: log("figures", note=note))
    return result.completed


def _heard_by(recorder: RunRecorder, deployment: Deployment) -> Parts:
    """The parts of the round, where every evaluation is told, UE by UE, of those that reported."""
    executor, evaluate = deployment.executor, deployment.parts.evaluate

    def told(state: TrainState) -> EvaluationSummary | None:
        found = evaluate(state)
        if found is not None:
            ues = np.array(sorted(executor.figures), dtype=np.int64)
            figures = {name: values[ues] for name, values in executor.evaluation().items()}
            recorder.evaluated(state.round, figures, ues)
        return found

    return replace(deployment.parts, evaluate=told)


@dataclass
class _Ending:
    """Whether nodes need not wait for this cloud to come back."""

    is_final: bool = False


@contextmanager
def _telling_the_end(deployment: Deployment) -> Iterator[_Ending]:
    """Close the cloud however its run ends; one that is done, or whose model is lost, tells its edges to end too."""
    ending = _Ending()
    try:
        yield ending
    except DivergedError:
        ending.is_final = True
        raise
    finally:
        deployment.executor.loop.run(deployment.cloud.stop(completed=ending.is_final))


@contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """A stop that SIGTERM or Ctrl-C asks for: the run ends after its round, and what was accepted is kept."""
    stop = Stop()

    def heard(kind: signal.Signals) -> None:
        log("stop asked for", signal=kind.name)
        stop.ask()

    with on_signals(heard):
        yield stop


def _waking(deployment: Deployment) -> Callable[[], None]:
    """Ends the waiting of a cloud, from any thread or signal handler."""

    def wake() -> None:
        deployment.executor.loop.loop.call_soon_threadsafe(deployment.cloud.stopping.set)

    return wake


def _listeners(stop: Stop, keepers: Sequence[Watcher], watchers: Sequence[Watcher]) -> Listeners:
    return Listeners(
        watchers=watchers,
        keepers=keepers,
        note=lambda note: log("checkpoint", note=note),
        warn=lambda note: log("watcher failed", level=logging.WARNING, note=note),
        should_stop=lambda: stop.is_asked,
    )


def _run_id(out: Path) -> str:
    """The name of this run, which every message carries; drawn once, kept with the results, and mended from the audit.

    Raises where neither says what it was: under another name the audit would be that of two runs.
    """
    path, logged = out / RUN_ID, logged_run(out)
    said = path.read_bytes().decode("ascii", errors="replace") if path.is_file() else None
    if logged is not None and _NAME.fullmatch(logged) and said != logged:
        log("run-id mended", level=logging.WARNING, said=said, audit=logged)
        said = logged
        atomic.write_text(path, said)
    if said is None:
        said = secrets.token_hex(8)
        atomic.write_text(path, said)
    if not _NAME.fullmatch(said):
        raise OutputError(
            f"{path} is {said[:40]!r}; wanted the 16 hexadecimal digits that {LOG} has as `run`, or no such file: then "
            "the run goes on under a new name, once its audit is moved elsewhere"
        )
    return said


def _board(experiment: SharedWork, deployment: Deployment) -> Board:
    return Board(deployment.cloud, edges=deployment.cloud.roster, num_ues=experiment.config.network.num_ues)


def _subject(settings: CloudNodeSettings, experiment: SharedWork, deployment: Deployment) -> Subject:
    config, executor = experiment.config, deployment.executor

    def facts() -> dict[str, Any]:
        return {
            "test_samples": "those each UE holds; a UE whose file names no data has its simulated twin's",
            "idle_settings": list(idle_settings(config)),
            "deployed": True,
            "median_measured_over_planned": _median_ratio(executor),
            "environment": environment(),
        }

    edges = np.repeat(np.arange(config.network.edges), config.network.ues_of_edges)
    newcomers = {} if executor.newcomers is None else {"held_out": executor.newcomers}
    return Subject(
        config=config,
        spec=experiment.task.spec,
        metrics=executor.metrics,
        facts=facts,
        ues={"ue": np.arange(config.network.num_ues), "edge": edges, **newcomers},
        evaluation=lambda _state: executor.evaluation(),
        save_every=settings.checkpoint_every,
        deployed=True,
    )


def _median_ratio(executor: DeployedExecutor) -> float | None:
    return statistics.median(executor.over_planned) if executor.over_planned else None
