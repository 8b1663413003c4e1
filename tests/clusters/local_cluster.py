"""A real cluster of several nodes on this machine, which tests connect to and take nodes from."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

_TRIES = 3


@contextmanager
def cluster_of(*cpus: int) -> Iterator[Any]:
    """A cluster of nodes with so many CPUs each, this process being connected to the first."""
    import ray

    cluster = _started(cpus)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def _started(cpus: tuple[int, ...]) -> Any:
    """All nodes; Ray itself gives a node up that is not there in half a minute, on a machine with too much to do."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}  # that a node is gone is seen
    usual = {"object_store_memory": 80_000_000, "include_dashboard": False}
    for _ in range(_TRIES):
        cluster = Cluster()
        try:
            for number, count in enumerate(cpus):
                cluster.add_node(num_cpus=count, **usual, **({} if number else {"_system_config": soon}))
        except Exception as error:
            with suppress(Exception):
                cluster.shutdown()
            if "timed out during startup" not in str(error):
                raise
        else:
            return cluster
    pytest.skip(f"this machine has too much to do: Ray gave up starting a node {_TRIES} times")
