"""What a round costs over the network: real processes on loopback with mutual TLS, UEs that do not train.

    .venv/bin/python benchmarks/deployment.py [--json] [--only small|crowd|mass|large] [--rounds 50] [--ues 1000]

small   1 cloud, 2 edges, 4 UEs, 80k parameters: milliseconds per round            bar: 20 ms
crowd   1 edge with 1,000 UE streams, 80k parameters: seconds until all are attached, seconds per round, and the
        edge's resident memory at its peak above the same edge with all streams attached and idle, and above
        the edge before any stream                                                 bars: 10 s, 3 s, 120 MB, 120 MB
mass    the same with four times as many UE streams: seconds per round, and memory  bars: 12 s, 480 MB
large   1 cloud, 1 edge, 2 UEs, a model of 40 MB: seconds per round; it passes, in chunks of 1 MB

A round is everything: model down both hops, sketches up, plan, orders down, updates up, aggregation. UEs answer with a
prepared update, so that no training is timed. Sockets, encryption and checks are the real ones. A UE has a thread for
its training; of thousands of UEs that share one process nobody has, for so many threads wait for one interpreter.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", "ECDHE-RSA-AES256-GCM-SHA384")  # see hpfl.deployment.environment
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from torch import nn

from hpfl.deployment.bridge import LoopThread
from hpfl.deployment.deployed_run import build_deployment
from hpfl.deployment.local import LocalOptions, lay_out, small_network
from hpfl.deployment.logs import log_to
from hpfl.deployment.node import SharedWork
from hpfl.deployment.processes import run_edge
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, UeNodeSettings, read_settings
from hpfl.deployment.ue import Ue
from hpfl.training.loop import train

FIGURES = (
    ("small", "round_ms", "1 cloud, 2 edges, 4 UEs, 80k parameters: a round", "ms", 20.0),
    ("crowd", "attach_s", "one edge, many UE streams: all attached", "s", 10.0),
    ("crowd", "round_s", "one edge, many UE streams: a round", "s", 3.0),
    ("crowd", "edge_memory_mb", "one edge, many UE streams: peak above attached and idle", "MB", 120.0),
    ("crowd", "edge_memory_above_start_mb", "one edge, many UE streams: peak above its start", "MB", 120.0),
    ("mass", "round_s", "one edge, four times as many UE streams: a round", "s", 12.0),
    ("mass", "edge_memory_above_start_mb", "one edge, four times as many: peak above its start", "MB", 480.0),
    ("large", "round_s", "40 MB model, 1 edge, 2 UEs: a round", "s", None),
)
FLAT_OUT = {"deadline_slack_s": 60.0, "gather_s": 120.0, "compute_s": 120.0, "retry_s": 0.5}


def wide(input_shape: Any, num_outputs: int) -> nn.Module:
    """A model of ten million parameters: 40 MB."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 12_600, bias=False), nn.Linear(12_600, num_outputs, bias=False))


class Prepared:
    """A UE's learner that has its answer ready."""

    num_samples = 40

    def __init__(self, experiment: SharedWork) -> None:
        self._update = np.full(experiment.spec.length, 1e-3, dtype=experiment.spec.dtype)
        self._sketch = experiment.sketches.sketch(self._update)

    def update(self, params: np.ndarray, *, base_round: int, edge_round: int) -> np.ndarray:
        return self._update

    def sketch(self, update: np.ndarray) -> np.ndarray:
        return self._sketch


class AtOnce:
    """Does a UE's work where it is asked for, instead of a thread."""

    async def run(self, work: Any) -> Any:
        return work()

    def end(self) -> None:
        pass


async def swarm(files: list[str]) -> None:
    """Many UEs in one process, each with its own certificate, connection and stream."""
    settings = [read_settings(UeNodeSettings, Path(file)) for file in files]
    experiment = SharedWork(settings[0])
    prepared: Any = Prepared(experiment)
    ues: list[Any] = [Ue(one, experiment, prepared) for one in settings]
    for ue in ues if len(ues) > 1 else ():
        ue._thread = AtOnce()
    await asyncio.gather(*(ue.run() for ue in ues))


def measured(name: str, *, edges: int, ues: int, rounds: int, processes: int, changes: list[str]) -> dict[str, Any]:
    """Figures of one arrangement."""
    fixed = ["planning.planner=full", "evaluation.every=1000000", "training.rounds=1000000"]
    with tempfile.TemporaryDirectory() as folder, LoopThread() as loop:
        config = small_network("quickstart-paper", edges=edges, ues_per_edge=ues, overrides=[*fixed, *changes])
        nodes = lay_out(Path(folder), config, LocalOptions(paced=False, timing=FLAT_OUT))
        cloud_file, *edge_files = (node.file for node in nodes if node.role != "ue")
        ue_files = [str(node.file) for node in nodes if node.role == "ue"]
        settings = read_settings(CloudNodeSettings, cloud_file)
        experiment = SharedWork(settings)
        deployment = build_deployment(settings, experiment, loop, run="benchmark")
        deployment.executor.prepare(deployment.start)
        loop.run(deployment.cloud.start())
        waiting = loop.start(deployment.cloud.observe())
        helpers = [started("--edge", str(file)) for file in edge_files]
        try:
            memory = Memory(helpers[0].pid)
            until(lambda: len(deployment.cloud.hub.children) == edges)
            memory.started()
            shares = [ue_files[at::processes] for at in range(processes)]
            helpers += [started("--swarm", *share) for share in shares]
            until(lambda: held(deployment, edges * ues))
            waiting.result(60)
            memory.attached()
            return {"name": name, **played(deployment, edges * ues, memory, rounds)}
        finally:
            loop.run(deployment.cloud.stop(completed=True))
            for helper in helpers:
                finish(helper)


def held(deployment: Any, num_ues: int) -> bool:
    """Whether every UE is attached: the edges have their first sketches of all of them."""
    return sum(int(one.sketch.ues.size) for one in list(deployment.cloud.held.values())) == num_ues


def played(deployment: Any, num_ues: int, memory: "Memory", rounds: int) -> dict[str, Any]:
    """Attach everybody in the first round, then time the others."""
    ticks = [time.perf_counter()]
    there: list[int] = []

    def watch(state: Any, record: Any) -> bool:
        ticks.append(time.perf_counter())
        there.append(record.num_participants)
        return len(there) <= rounds

    train(deployment.start, deployment.parts, deployment.settings, watch)
    assert there[-1] == num_ues, f"{there[-1]} of {num_ues} UEs took part"
    took = np.diff(ticks)[1:]
    return {
        "ues": num_ues,
        "parameters": int(deployment.start.params.numel()),
        "rounds": len(took),
        "first_round_s": ticks[1] - ticks[0],
        "round_s": statistics.median(took),
        "round_ms": 1e3 * statistics.median(took),
        "slowest_round_ms": 1e3 * max(took),
        "edge_memory_mb": memory.peak_mb - memory.attached_mb,
        "edge_memory_above_start_mb": memory.peak_mb - memory.start_mb,
    }


class Memory:
    """Resident memory of one process: before any stream, with all streams idle, and at its peak."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/status")
        self.start_mb = self.attached_mb = float("nan")

    def started(self) -> None:
        time.sleep(0.5)
        self.start_mb = self._read("VmRSS")

    def attached(self) -> None:
        self.attached_mb = self._read("VmRSS")

    @property
    def peak_mb(self) -> float:
        return self._read("VmHWM")

    def _read(self, name: str) -> float:
        line = next(line for line in self._file.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024


def attach_seconds(*, ues: int, processes: int) -> float:
    """Seconds from the moment the UEs start to connect until all are attached to one edge."""
    with tempfile.TemporaryDirectory() as folder:
        config = small_network("quickstart-paper", edges=1, ues_per_edge=ues, overrides=[])
        nodes = lay_out(Path(folder), config, LocalOptions(paced=False, timing=FLAT_OUT))
        ue_files = [str(node.file) for node in nodes if node.role == "ue"]
        edge = started("--attach", str(nodes[1].file), str(ues))
        shares = [ue_files[at::processes] for at in range(processes)]
        swarms = [started("--swarm", *share) for share in shares]
        try:
            assert edge.stdout is not None
            return float(edge.stdout.readline())
        finally:
            for helper in (edge, *swarms):
                finish(helper)


async def attached(file: str, wanted: int) -> None:
    """An edge that tells how long it took from the first UE to the last."""
    from hpfl.deployment.edge_ues import EdgeUes

    settings = read_settings(EdgeNodeSettings, Path(file))
    ues = EdgeUes(settings, SharedWork(settings))
    await ues.side.start()
    began = None
    while len(ues.hub.children) < wanted:
        await asyncio.sleep(0.005)
        if began is None and ues.hub.children:
            began = time.perf_counter()
    print(time.perf_counter() - (began or 0.0), flush=True)
    await ues.hub.stop()


def started(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    path = os.pathsep.join([str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def finish(process: "subprocess.Popen[str]") -> None:
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(timeout=15)
    if process.stdout is not None:
        process.stdout.close()


def until(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.01)


def rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    if options.only in {None, "small"}:
        found.append(measured("small", edges=2, ues=2, rounds=options.rounds, processes=4, changes=[]))
    if options.only in {None, "crowd"}:
        attach_s = attach_seconds(ues=options.ues, processes=1)
        crowd = measured("crowd", edges=1, ues=options.ues, rounds=5, processes=1, changes=[])
        found.append({**crowd, "attach_s": attach_s})
    if options.only in {None, "mass"}:
        found.append(measured("mass", edges=1, ues=4 * options.ues, rounds=3, processes=1, changes=[]))
    if options.only in {None, "large"}:
        model = ["learning.model=deployment:wide"]
        found.append(measured("large", edges=1, ues=2, rounds=4, processes=2, changes=model))
    return [
        {"work": work, "value": run[key], "unit": unit, "bar": bar, "ok": bar is None or bool(run[key] <= bar)}
        for run in found
        for name, key, work, unit, bar in FIGURES
        if name == run["name"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["small", "crowd", "mass", "large"])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--ues", type=int, default=1000)
    parser.add_argument("--edge", help=argparse.SUPPRESS)
    parser.add_argument("--attach", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--swarm", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    log_to("edge" if options.edge else "ues" if options.swarm else "cloud", level="error")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8192), hard), hard))
    if options.edge:
        asyncio.run(run_edge(read_settings(EdgeNodeSettings, Path(options.edge))))
    elif options.attach:
        asyncio.run(attached(options.attach[0], int(options.attach[1])))
    elif options.swarm:
        asyncio.run(swarm(options.swarm))
    else:
        for row in rows(options):
            print(json.dumps(row) if options.json else text_of(row))


def text_of(row: dict[str, Any]) -> str:
    verdict = "" if row["bar"] is None else f"bar {row['bar']:g} {row['unit']}, {'met' if row['ok'] else 'MISSED'}"
    return f"{row['work']:<58} {row['value']:10.4g} {row['unit']:<3} {verdict}"


if __name__ == "__main__":
    main()
