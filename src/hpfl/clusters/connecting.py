"""A cluster to compute on: one that is there, or one of this machine's own for as long as it is needed."""

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from hpfl.config import ConfigError

ADDRESS = "RAY_ADDRESS"
"""Names the cluster, where no address is given."""
_REACHED_S = 10  # within which a cluster answers


class ClusterError(ConfigError):
    """A cluster that is not there, or that has less than was asked for."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """So many processes of one kind, `what`, with so many CPUs and GPUs each."""

    what: str
    count: int
    cpus: float
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for name, value, least in (("workers", self.count, 1), (f"cpus-per-{self.what}", self.cpus, 0)):
            if value < least or (not least and not value):
                raise ConfigError(f"--{name} is {value:g}; wanted {'at least 1' if least else 'more than 0'}")
        if self.gpus < 0 or (self.gpus > 1 and self.gpus != int(self.gpus)):
            raise ConfigError(
                f"--gpus-per-{self.what} is {self.gpus:g}; wanted a share of one GPU (0.1), or a whole number of them"
            )


def ray_module() -> Any:
    """Ray, or a sentence that says how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody unasked
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ClusterError('engine is "ray", which is not installed here: pip install "hpfl[ray]"') from error
    return ray


@contextmanager
def connected(address: str, wanted: Wanted) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`, else to that of `RAY_ADDRESS`, else to one of this machine's own.

    A connection that is there already is used, and stays. What the cluster has too little of is refused.
    """
    ray, place = ray_module(), address or os.environ.get(ADDRESS, "")
    if ray.is_initialized():
        _refuse_more_than_there_is(ray, wanted)
        yield ray
        return
    with _own_signals():
        if place:
            _reach(ray, place)
        else:
            _start(ray, wanted)
    try:
        _refuse_more_than_there_is(ray, wanted)
        yield ray
    finally:
        ray.shutdown()


def _reach(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address != "auto" and not address.startswith("ray://"):
        _refuse_silence(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:  # of any kind: it cannot be worked with
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterError(f"no Ray cluster can be reached at {address!r}: {said[0]}") from error


def _refuse_silence(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for a minute."""
    import socket

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"no Ray cluster can be reached at {address!r}: wanted HOST:PORT, as `ray start` prints it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED_S).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster can be reached at {address!r}: {error}") from error


def _start(ray: Any, wanted: Wanted) -> None:
    """A cluster of this machine alone; it has as many CPUs as are asked for, since threads can share cores."""
    asked = math.ceil(wanted.count * wanted.cpus)
    quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address="local", num_cpus=max(os.cpu_count() or 1, asked), **quiet)
    except Exception as error:  # Ray raises just that where a process of its own does not come up in time
        ray.shutdown()
        raise ClusterError(f"Ray could not be started on this machine: {str(error).splitlines()[0]}") from error


def _refuse_more_than_there_is(ray: Any, wanted: Wanted) -> None:
    there = ray.cluster_resources()
    for kind, each in (("CPU", wanted.cpus), ("GPU", wanted.gpus)):
        fit = sum(_fitting(node["Resources"].get(kind, 0.0), each) for node in ray.nodes() if node["Alive"])
        if each and fit < wanted.count:
            raise ClusterError(
                f"{wanted.count} {wanted.what}s with {each:g} {kind}s each were asked for; the cluster has "
                f"{there.get(kind, 0.0):g} {kind}s in all, room for {fit}"
            )


def _fitting(there: float, each: float) -> int:
    return math.floor(there / each + 1e-9) if each else 0


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM when it connects; whoever had it has it again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            with suppress(TypeError):  # one that was not set from Python
                signal.signal(kind, handler)
