"""Those who watch a cloud's run from within its process: its log, its audit, and the metrics it serves."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hpfl.assembly import written_menu
from hpfl.config import Experiment
from hpfl.deployment.audit import AuditLog, LoggedCodings
from hpfl.deployment.health import Health
from hpfl.deployment.logs import log
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.real_executor import DeployedExecutor, as_vector
from hpfl.deployment.server_metrics import Metrics
from hpfl.learning.sending import Sending
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.step_coding import CLOUD_CODEC
from hpfl.training.watching import Run, RunResult, Watcher


class RunLog(Watcher):
    """A line for the start and for every round."""

    def started(self, run: Run) -> None:
        """Where it begins."""
        log("starting", round=run.state.round)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Whose updates went in, and how long it took."""
        log("round done", round=state.round, aggregated=list(record.aggregated), latency_s=record.latency_s)


@dataclass(frozen=True)
class Audited(Watcher):
    """The audit of a run: what it starts with, and every round, before a checkpoint has it."""

    audit: AuditLog
    executor: DeployedExecutor

    def started(self, run: Run) -> None:
        """Name the model that the run begins with, or goes on with."""
        self.begin(run.state)

    def begin(self, state: TrainState) -> None:
        """Log the model of a state, and all that the rounds from there on are recomputed with."""
        codings = logged_codings(self.executor.links.config, self.executor.updates.sending, state)
        self.audit.start(self._model(state), rule=state.cloud_rule, codings=codings)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """The updates that came, what was made of them, and the share of each."""
        assert self.executor.uploaded is not None
        shares = dict(zip(record.aggregated, record.shares, strict=True))
        self.audit.stepped(self.executor.uploaded, self._model(state), shares)

    def ended(self, result: RunResult) -> None:
        """No more rounds will come."""
        self.audit.ended()

    def _model(self, state: TrainState) -> NamedModel:
        return self.executor.cloud.named(as_vector(state.params), round_number=state.round)


def logged_codings(config: Experiment, sending: Sending, state: TrainState) -> LoggedCodings | None:
    """What the audit says of codings; None where there are none."""
    if not sending.codings:
        return None
    arrays = {} if sending.places is None else {"places": sending.places.numpy()}
    if isinstance(own := state.kept.get(CLOUD_CODEC), torch.Tensor):
        arrays[CLOUD_CODEC] = own.numpy()
    return LoggedCodings(menu=written_menu(config), seed=config.training.seed, arrays=arrays)


@dataclass(frozen=True)
class ServedMetrics(Watcher):
    """Prometheus metrics and the `status` of all nodes, answered for from the start on at `host:port`, or nowhere."""

    metrics: Metrics
    address: str
    health: Health | None = None
    status: Callable[[], str] | None = None

    def started(self, run: Run) -> None:
        """Begin to answer."""
        self.metrics.serve(self.address, self.health, self.status)
