"""Those who watch a cloud's run from within its process: its log, its audit, and the metrics it serves."""

from dataclasses import dataclass

from hpfl.deployment.audit import AuditLog
from hpfl.deployment.cloud import Cloud
from hpfl.deployment.logs import log
from hpfl.deployment.real_executor import as_vector
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
class AuditedStart(Watcher):
    """Begins the audit of a run that starts or goes on. Rounds are logged by who aggregates, before a model leaves."""

    audit: AuditLog
    cloud: Cloud

    def started(self, run: Run) -> None:
        """Name the model that the run begins with."""
        model = self.cloud.named(as_vector(run.state.params), round_number=run.state.round)
        self.audit.start(model, rule=run.state.cloud_rule)


@dataclass(frozen=True)
class ServedMetrics(Watcher):
    """Prometheus metrics, answered for from the start on at `host:port` (empty: nowhere)."""

    metrics: Metrics
    address: str

    def started(self, run: Run) -> None:
        """Begin to answer."""
        self.metrics.serve(self.address)
