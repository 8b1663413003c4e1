"""Prometheus metrics of one server: who is attached, what was accepted or refused, and how long rounds take."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hpfl.deployment.health import Health, serve_status

_ROUND_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics:
    """Counters of one node in a registry of their own, so that several nodes can share a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.attached = Gauge("hpfl_children_attached", "Children attached now.", **made)
        self.left_out = Gauge("hpfl_children_left_out", "Children left out of rounds now.", **made)
        self.misses = Counter("hpfl_misses", "Answers that did not come in time.", **made)
        self.accepted = Counter("hpfl_updates_accepted", "Updates that went into a mean.", **made)
        self.refused = Counter("hpfl_messages_refused", "Messages refused, by rule.", ["code"], **made)
        self.secure = Counter("hpfl_secure_sessions", "Secure sums, by how they ended.", ["outcome"], **made)
        self.attachments = Counter("hpfl_attachments", "Streams opened by children.", **made)
        self.received = Counter("hpfl_received_bytes", "Bytes received from children.", **made)
        self.sent = Counter("hpfl_sent_bytes", "Bytes sent to children.", **made)
        self.expires = Gauge(
            "hpfl_certificate_expires_seconds",
            "Seconds until a certificate expires: own, or a child's.",
            ["of"],
            **made,
        )
        self.round = Gauge("hpfl_round", "Round in progress.", **made)
        self.seconds = Histogram("hpfl_round_seconds", "Seconds of a round.", buckets=_ROUND_BUCKETS_S, **made)

    def serve(
        self, address: str, health: Health | None = None, status: Callable[[], str] | None = None
    ) -> Callable[[], None] | None:
        """Answer GET /metrics, /healthz, /readyz and /status at `host:port`; how to stop. Nothing for no address."""
        return serve_status(address, self.registry, health, status)


def total_of(counter: Counter) -> int:
    """What a counter has come to, over all its labels."""
    samples = (sample for metric in counter.collect() for sample in metric.samples)
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))
