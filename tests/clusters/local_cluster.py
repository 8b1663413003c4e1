"""A real cluster of several nodes on this machine, which tests connect to and take nodes from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def cluster_of(*cpus: int) -> Iterator[Any]:
    """A cluster of nodes with so many CPUs each, this process being connected to the first."""
    import ray
    from ray.cluster_utils import Cluster

    soon = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}  # that a node is gone is seen
    usual = {"object_store_memory": 80_000_000, "include_dashboard": False, "_system_config": soon}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0], **usual})
    try:
        for count in cpus[1:]:
            cluster.add_node(num_cpus=count, object_store_memory=80_000_000)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
