"""Several hosts for real: 13 addresses with delay and loss, which train through whatever happens to them."""

import json
import multiprocessing
import os
import signal
import time

import pytest
import tomlkit
from deployment_nodes import SMALL, audit_script, until
from switched_hosts import Hosts, logs_of, run_on_host, why_not
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.deployment.local import LocalOptions, lay_out

NEEDED = "HPFL_NEED_NAMESPACES"
"""Set where namespaces can be made for certain: there a skip is a failure."""
PRELOADED = ["hpfl.cli_deploy", "hpfl.deployed", "hpfl.deployment.processes", "hpfl.deployment.readiness"]
EDGES, UES = 3, 9
OVERRIDES = [
    *SMALL,
    f"network.edges={EDGES}",
    f"network.ues_per_edge={UES // EDGES}",
    f"planning.max_edges={EDGES}",
    "training.rounds=1000000",
]
TIMING = {"retry_s": 0.5, "gather_s": 30.0, "compute_s": 3.0, "deadline_slack_s": 2.0, "evaluate_s": 3.0}


def addresses():
    edges = {f"edge-{k}": f"10.77.1.{k + 1}" for k in range(EDGES)}
    return {"cloud": "10.77.0.1", **edges, **{f"ue-{i}": f"10.77.2.{i + 1}" for i in range(UES)}}


class Fleet:
    """Every node on a host of its own."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts, self.run = folder, hosts, folder / "run"
        config = hpfl.load("quickstart-paper", overrides=OVERRIDES)
        nodes = lay_out(folder, config, LocalOptions(paced=False, timing=TIMING))
        self.nodes = {node.name: node for node in nodes}
        for node in nodes:
            self._move(node)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self.processes = {}

    def _move(self, node):
        """From loopback to the host's own address."""
        document = tomlkit.parse(node.file.read_text())
        edge = f"edge-{document['number'] // (UES // EDGES)}" if node.role == "ue" else node.name
        places = {
            "listen": f"{self.hosts.addresses[node.name]}:{7700 if node.role == 'cloud' else 7701}",
            "cloud": f"{self.hosts.addresses['cloud']}:7700",
            "edge": f"{self.hosts.addresses[edge]}:7701",
        }
        document.update({key: place for key, place in places.items() if key in document})
        document["limits"] = {"keepalive_s": 2.0, "idle_s": 4.0}
        node.file.write_text(tomlkit.dumps(document))

    def start(self, *names):
        for name in names or self.nodes:
            node = self.nodes[name]
            arguments = (self.hosts.space(name), str(node.log), (node.role, str(node.file)))
            self.processes[name] = self._context.Process(target=run_on_host, args=arguments, daemon=True, name=name)
            self.processes[name].start()

    def end(self, name, kind=signal.SIGTERM, within_s=30.0):
        """Send a signal and wait; the exit status."""
        os.kill(self.processes[name].pid, kind)
        self.processes[name].join(within_s)
        return self.processes[name].exitcode

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        end = time.monotonic() + 10
        for process in self.processes.values():
            process.join(max(end - time.monotonic(), 0.1))
            process.kill()
            process.join(5)

    def rounds(self):
        path = self.run / "rounds.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line)["aggregated"] for line in lines]

    def after(self, since, wanted, seconds=90.0):
        """Wait until so many rounds after `since` were of exactly these edges."""
        until(lambda: sum(sorted(one) == sorted(wanted) for one in self.rounds()[since:]) >= 3, seconds)

    def rotate(self, *words):
        """Do a step of a rotation where the authority is; all nodes take it in while they run."""
        before = self.changes()
        done = CliRunner().invoke(app, ["certs", words[0], str(self.folder / "certs"), *words[1:]])
        assert done.exit_code == 0, done.output
        until(lambda: not self.behind(before), 60)

    def behind(self, before):
        """Nodes that have not taken in other certificates since; an edge does twice, as a child and as a parent."""
        return [name for name, count in self.changes().items() if count < before[name] + 1 + ("edge" in name)]

    def changes(self):
        """How often each node has taken in other certificates."""
        return {name: node.log.read_text().count('"certificate changed"') for name, node in self.nodes.items()}

    def train_through_a_partition(self):
        """One edge is cut off from everybody for a while, and takes part again."""
        self.after(0, [0, 1, 2])
        self.hosts.cut = {"edge-1"}
        self.after(len(self.rounds()), [0, 2])
        self.hosts.cut = set()
        self.after(len(self.rounds()), [0, 1, 2])


@pytest.fixture
def fleet(tmp_path):
    reason = why_not()
    if reason and os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, and hosts cannot be made: {reason}")
    if reason:
        pytest.skip(reason)
    with Hosts(addresses(), delay_s=0.003, loss=0.003) as hosts:
        fleet = Fleet(tmp_path, hosts)
        fleet.start()
        try:
            yield fleet
        finally:
            fleet.stop()
            print(logs_of(tmp_path / "logs"))


def audited(fleet):
    counts = audit_script.audit(fleet.run)
    assert counts["rounds"] == len(fleet.rounds())
    assert counts["updates"] == sum(map(len, fleet.rounds()))
    return counts


def test_thirteen_hosts_train_through_a_partition_a_killed_cloud_and_a_rotation_of_all_certificates(fleet):
    fleet.train_through_a_partition()
    assert fleet.end("cloud", signal.SIGKILL) == -signal.SIGKILL
    fleet.start("cloud")
    fleet.after(len(fleet.rounds()), [0, 1, 2])
    fleet.rotate("rotate")
    fleet.rotate("renew", *fleet.nodes)
    fleet.rotate("rotate", "--finish")
    assert fleet.end("edge-2", signal.SIGKILL) == -signal.SIGKILL  # it and its UEs shake hands anew
    fleet.start("edge-2")
    fleet.after(len(fleet.rounds()), [0, 1, 2])
    assert fleet.end("cloud") == 130
    assert fleet.hosts.lost > 10
    assert audited(fleet)["starts"] == 2
