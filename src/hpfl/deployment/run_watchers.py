"""Those who watch a cloud's run from within its process: its log, its audit, and the metrics it serves."""

from dataclasses import dataclass

from hpfl.deployment.audit import AuditLog
from hpfl.deployment.logs import log
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.real_executor import DeployedExecutor, as_vector
from hpfl.deployment.server_metrics import Metrics
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Run, Watcher


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
        self.audit.start(self._model(run.state), rule=run.state.cloud_rule)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """The updates that came, what was made of them, and the share of each."""
        assert self.executor.uploaded is not None
        shares = dict(zip(record.aggregated, record.shares, strict=True))
        self.audit.stepped(self.executor.uploaded, self._model(state), shares)

    def _model(self, state: TrainState) -> NamedModel:
        return self.executor.cloud.named(as_vector(state.params), round_number=state.round)


@dataclass(frozen=True)
class ServedMetrics(Watcher):
    """Prometheus metrics, answered for from the start on at `host:port` (empty: nowhere)."""

    metrics: Metrics
    address: str

    def started(self, run: Run) -> None:
        """Begin to answer."""
        self.metrics.serve(self.address)
