"""A whole deployment on this machine: certificates, one file and one process per node, and a supervisor over them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from hpfl.config import Config, ConfigError, load, resolve, to_toml, with_overrides
from hpfl.data.sources import is_registered, load_dataset
from hpfl.dealing import fitted
from hpfl.deployment.certificates import init_authority, issue
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.environment import SUPERVISOR
from hpfl.deployment.node_parts import make_node_task
from hpfl.deployment.settings import CloudNodeSettings

EXPERIMENT = "experiment.toml"

_LOOPBACK = "127.0.0.1"
_MOST_FAILURES = 20
"""In a row, by itself; whoever is killed from outside is started again however often."""
_RESTART_PAUSE_S = 0.5
_START = "from hpfl.cli import main; main()"


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """What `hpfl deploy local` may change."""

    paced: bool = True
    time_scale: float = 1.0
    serve: bool = False
    metrics: bool = False
    timing: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalNode:
    """One process to be."""

    name: str
    role: str
    file: Path
    log: Path

    @property
    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, "-c", _START, self.role, str(self.file)]


def lay_out(folder: Path, config: Config, options: LocalOptions) -> list[LocalNode]:
    """Write certificates, the experiment and every node's file into `folder`; the nodes, parents first."""
    for part in ("certs", "nodes", "logs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / EXPERIMENT).write_text(to_toml(config), encoding="utf-8")
    counts = config.network.ues_of_edges
    num_nodes = 1 + len(counts) + int(counts.sum())
    ports = free_ports(1 + len(counts) + (num_nodes if options.metrics else 0))
    authority = init_authority(folder / "certs")
    nodes: list[LocalNode] = []

    def add(name: str, role: str, settings: dict[str, Any]) -> None:
        issue(authority, folder / "certs", name)
        nodes.append(_written(folder, name, role, {**settings, "experiment": f"../{EXPERIMENT}"}, options))

    cloud = {
        "listen": f"{_LOOPBACK}:{ports[0]}",
        "out": "../run",
        "paced": options.paced,
        "time_scale": options.time_scale,
        "serve": options.serve,
        "gives_up": True,
    }
    metrics = [f"{_LOOPBACK}:{port}" for port in ports[1 + len(counts) :]] or [""] * num_nodes
    add("cloud", "cloud", {**cloud, "metrics": metrics[0]})
    for k in range(len(counts)):
        listen = f"{_LOOPBACK}:{ports[1 + k]}"
        edge = {"number": k, "listen": listen, "cloud": cloud["listen"], "metrics": metrics[1 + k]}
        edge |= {"state": f"../state/edge-{k}"}
        add(f"edge-{k}", "edge", edge)
    for i in range(int(counts.sum())):
        k = int((counts.cumsum() <= i).sum())
        parent = {"edge": f"{_LOOPBACK}:{ports[1 + k]}", "edge_name": f"edge-{k}"}
        ue = {"number": i, **parent, "state": f"../state/ue-{i}", "metrics": metrics[1 + len(counts) + i]}
        add(f"ue-{i}", "ue", ue)
    return nodes


def laid_out(folder: Path) -> list[LocalNode]:
    """The nodes that `lay_out` wrote, parents first."""
    names = [path.stem for path in (folder / "nodes").glob("*.toml")]
    rank = {"cloud": 0, "edge": 1, "ue": 2}
    names.sort(key=lambda name: (rank[name.split("-")[0]], len(name), name))
    return [
        LocalNode(name, name.split("-")[0], folder / "nodes" / f"{name}.toml", folder / "logs" / f"{name}.jsonl")
        for name in names
    ]


def small_network(
    source: str, *, edges: int | None, ues_per_edge: int | list[int] | None, overrides: list[str]
) -> Config:
    """An experiment with its network cut to size (None: 2 edges of 3 UEs); own samples bring theirs along."""
    config = load(source, overrides=overrides)
    if not is_registered(config.data.dataset):
        config = fitted(config, load_dataset(config.data.dataset, options=config.data.options("dataset")))
        network = config.network
        if edges not in {None, network.edges} or ues_per_edge not in (None, network.ues_per_edge):
            raise ConfigError(
                f"{config.data.dataset} has {network.num_ues} UEs under {network.edges} edges; leave out other numbers"
            )
        edges, ues_per_edge = network.edges, network.ues_per_edge
    edges, ues_per_edge = edges or 2, ues_per_edge or 3
    shape = [f"network.edges={edges}", f"network.ues_per_edge={ues_per_edge}", f"planning.max_edges={edges}"]
    return with_overrides(config, [*shape, *overrides])


def refuse_what_no_cloud_would_run(config: Config) -> None:
    """Find out before a file is written what every cloud finds out as it starts."""
    experiment = resolve(config)
    refuse_what_only_a_simulator_can(experiment)
    make_node_task(CloudNodeSettings(), experiment)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Supervisor:
    """Starts every node, starts again whoever dies before the run is over, and stops all at the end."""

    def __init__(self, nodes: list[LocalNode]) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: dict[str, int] = {node.name: 0 for node in nodes}
        self._nodes = {node.name: node for node in nodes}
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {node.name: 0 for node in nodes}

    def start(self) -> None:
        """Start all nodes."""
        for name in self._nodes:
            self._start(name)

    def watch(self, tick: Callable[[], None], *, every_s: float = 0.2) -> int:
        """Keep all nodes alive until the cloud has ended by itself, or died too often; its exit status."""
        while True:
            tick()
            for name, process in list(self.processes.items()):
                status = process.poll()
                if status is None:
                    continue
                if name == "cloud" and (status in {0, 2, 130} or self._failures[name] >= _MOST_FAILURES):
                    return status
                if status not in {0, 2}:
                    self._revive(name, status)
            time.sleep(every_s)

    def stop(self, *, patience_s: float = 10.0) -> None:
        """Ask all nodes to end, UEs last; kill those that do not."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        end = time.monotonic() + patience_s
        for process in self.processes.values():
            try:
                process.wait(timeout=max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _revive(self, name: str, status: int) -> None:
        now = time.monotonic()
        if name not in self._due:
            self._due[name] = now + _RESTART_PAUSE_S
            self._failures[name] = self._failures[name] + 1 if status > 0 else 0
        elif now >= self._due[name] and self._failures[name] < _MOST_FAILURES:
            del self._due[name]
            self.restarts[name] += 1
            self._start(name)

    def _start(self, name: str) -> None:
        node = self._nodes[name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", SUPERVISOR: str(os.getpid())}
        with node.log.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                node.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )


def _written(folder: Path, name: str, role: str, settings: dict[str, Any], options: LocalOptions) -> LocalNode:
    path = folder / "nodes" / f"{name}.toml"
    tls = {"ca": "../certs/ca.pem", "certificate": f"../certs/{name}.pem", "private_key": f"../certs/{name}.key"}
    document = {"name": name, **settings, "tls": tls, **({"timing": options.timing} if options.timing else {})}
    path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return LocalNode(name, role, path, folder / "logs" / f"{name}.jsonl")
