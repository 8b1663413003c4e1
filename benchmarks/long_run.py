"""Whether a day's run keeps flat memory: a cloud, an edge and a UE, each its own process, for very many tiny rounds.

    .venv/bin/python benchmarks/long_run.py [--rounds 100000] [--every 1000] [--json]

Every node is the real one, with its files: records, timeline, audit (digests), a checkpoint every 100 rounds. The
model has seven parameters and the UE does not train. Each line has the rounds so far, resident memory (MB) and CPU
milliseconds per round of each process, and the seconds that a round took. The last line compares the medians of the
last tenth of the run with those after its first tenth.
"""

import argparse
import asyncio
import json
import os
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
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from torch import nn

from deployment import FLAT_OUT, Prepared, finish
from hpfl.deployed import run_cloud
from hpfl.deployment.local import LocalOptions, lay_out, small_network
from hpfl.deployment.node import SharedWork
from hpfl.deployment.processes import run_edge
from hpfl.deployment.settings import CloudNodeSettings, EdgeNodeSettings, UeNodeSettings, read_settings
from hpfl.deployment.ue import Ue
from hpfl.stopping import Stop
from hpfl.training.watching import Watcher

ROLES = ("cloud", "edge", "ue")
_SAVED_EVERY = 100


class Tiniest(nn.Module):
    """A model of seven parameters for any input."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(7))
        self.num_outputs = num_outputs

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Every class the same."""
        return inputs.flatten(1)[:, :1] * self.weight.sum().expand(1, self.num_outputs)


def tiniest(input_shape: Any, num_outputs: int) -> nn.Module:
    return Tiniest(num_outputs)


class Told(Watcher):
    """Says on standard output how far the cloud is, now and then."""

    def __init__(self, every: int) -> None:
        self._every = every

    def round(self, state: Any, record: Any) -> None:
        if state.round % self._every == 0:
            print(state.round, flush=True)


class Answering(Prepared):
    """A UE's learner that has figures ready too, for the evaluation at the end."""

    def __init__(self, experiment: SharedWork) -> None:
        super().__init__(experiment)
        self._figures = np.full(len(experiment.columns), 0.5)

    def evaluate(self, params: np.ndarray) -> np.ndarray:
        return self._figures


def cloud(file: str, every: int) -> None:
    settings = read_settings(CloudNodeSettings, Path(file))
    settings.audit, settings.checkpoint_every = "hashes", _SAVED_EVERY
    run_cloud(settings, stop=Stop(), watchers=[Told(every)])


async def ue(file: str) -> None:
    settings = read_settings(UeNodeSettings, Path(file))
    experiment = SharedWork(settings)
    answering: Any = Answering(experiment)
    await Ue(settings, experiment, answering).run()


class Process:
    """Memory and CPU of one node."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._before_s = 0.0

    def resident_mb(self) -> float:
        lines = (self._folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def cpu_ms(self) -> float:
        """Since this was asked last."""
        ticks = (self._folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        before_s, self._before_s = self._before_s, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return 1e3 * (self._before_s - before_s)


def played(rounds: int, every: int, tell: Any) -> list[dict[str, float]]:
    """Play so many rounds; what was measured at each step."""
    changes = ["planning.planner=full", "evaluation.every=1000000", f"training.rounds={rounds}"]
    model = "learning.model=long_run:tiniest"
    with tempfile.TemporaryDirectory() as folder:
        config = small_network("quickstart-paper", edges=1, ues_per_edge=1, overrides=[*changes, model])
        nodes = lay_out(Path(folder), config, LocalOptions(paced=False, timing=FLAT_OUT))
        helpers = [started(node.role, str(node.file), str(every)) for node in nodes]
        try:
            return watched(helpers, every, tell)
        finally:
            for helper in helpers:
                finish(helper)


def watched(helpers: list["subprocess.Popen[str]"], every: int, tell: Any) -> list[dict[str, float]]:
    processes = {role: Process(helper.pid) for role, helper in zip(ROLES, helpers, strict=True)}
    rows: list[dict[str, float]] = []
    before_s = time.monotonic()
    assert helpers[0].stdout is not None
    for line in helpers[0].stdout:
        row: dict[str, float] = {"rounds": int(line), "round_ms": 1e3 * (time.monotonic() - before_s) / every}
        before_s = time.monotonic()
        for role, process in processes.items():
            row |= {f"{role}_mb": process.resident_mb(), f"{role}_cpu_ms": process.cpu_ms() / every}
        rows.append(row)
        tell(row)
    return rows


def grown(rows: list[dict[str, float]]) -> dict[str, float]:
    """By how much memory (MB) and CPU per round (as a factor) have grown from the second tenth of a run to its last."""
    tenth = max(len(rows) // 10, 1)
    early, late = rows[tenth : 2 * tenth], rows[-tenth:]
    middle = {
        key: (statistics.median(r[key] for r in early), statistics.median(r[key] for r in late)) for key in rows[0]
    }
    memory = {f"{role}_grown_mb": middle[f"{role}_mb"][1] - middle[f"{role}_mb"][0] for role in ROLES}
    return memory | {f"{role}_cpu_factor": middle[f"{role}_cpu_ms"][1] / middle[f"{role}_cpu_ms"][0] for role in ROLES}


def started(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__).resolve()), "--node", *arguments]
    path = os.pathsep.join([str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--node", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()

    def tell(row: dict[str, float]) -> None:
        text = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
        print(json.dumps(row) if options.json else text, flush=True)

    if options.node is None:
        tell(grown(played(options.rounds, options.every, tell)))
        return
    role, file, every = options.node
    if role == "cloud":
        cloud(file, int(every))
    else:
        asyncio.run(run_edge(read_settings(EdgeNodeSettings, Path(file))) if role == "edge" else ue(file))


if __name__ == "__main__":
    main()
