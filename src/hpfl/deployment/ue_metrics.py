"""Prometheus metrics of one UE: what it has computed and sent, what was refused, and whether its edge is there."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_COMPUTE_BUCKETS_S = (0.001, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class UeMetrics:
    """Counters of one UE in a registry of their own."""

    def __init__(self, is_attached: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.computed = Counter("hpfl_ue_rounds_computed", "Models this UE has computed on.", **made)
        self.sent = Counter("hpfl_ue_updates_sent", "Updates this UE was asked for and began to send.", **made)
        seconds = {"buckets": _COMPUTE_BUCKETS_S, **made}
        self.seconds = Histogram("hpfl_ue_compute_seconds", "Seconds of computing on one model.", **seconds)
        self.refused = Counter("hpfl_ue_refused", "What this UE or its edge refused, by rule.", ["code"], **made)
        attached = Gauge("hpfl_parent_attached", "1 while the parent has this node attached, else 0.", **made)
        attached.set_function(lambda: float(is_attached()))
