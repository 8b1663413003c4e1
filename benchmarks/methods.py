"""Seconds of a round of every method, beside what people would otherwise use.

    .venv/bin/python benchmarks/methods.py [--json] [--only plain] [--device cuda] [--repeat 5] [--data-dir DIR]

Rows "plain": 200 UEs x 32 MNIST samples, MLP 784-100-10, one epoch in mini-batches of 8 (four steps), all take part;
beside a loop over UEs in plain PyTorch (benchmarks/methods_plain.py), in turn. Both start from the second round on,
when all UEs keep something. With `--threads 1 --processor-time` both are seconds of one core, which other work on the
machine hardly changes; the bar is for two cores, of which the loop makes little use.

Rows "pfllib": 20 UEs, all take part, batches of 10, one epoch, Dirichlet 0.1, the 4-layer CNN, on MNIST and CIFAR-10;
beside PFLlib as it is (`--pfllib DIR`, commit d832e76 of TsingZ0/PFLlib; benchmarks/methods_pfllib.py).

Row "FLUTE": its published job in `hpfl run`, imports and all, beside Flower's simulation (`--flower PYTHON`, an
environment with flwr 1.42 and ray; benchmarks/flute.py).

Digits come from the folder given (or HPFL_DATA_DIR), else from the sample of MNIST in the package.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]
# ruff: noqa: E402  after the path is set

import numpy as np
import torch

from hpfl.learning import METHODS, LocalTraining, make_task
from hpfl.learning.kept import Kept
from hpfl.learning.method import shared_beside
from hpfl.rng import Streams
from hpfl.training.counted import Counted
from learning import Job, Row, mnist, timed_in_turn
from methods_plain import METHODS as PLAIN
from methods_plain import Loop, Pairs

UES, SAMPLES, BATCH, RATE = 200, 32, 8, 0.05
MEMORY_GB = {"cpu": 4.0, "cuda": 60.0}


class Ours:
    """A cohort under one cloud, round after round."""

    def __init__(self, name: str, job: Job, device: str, weights: Any = None, seed: int = 0, **options: Any) -> None:
        method = METHODS.get(name, **options)()
        task = job.task.with_beside(shared_beside(method, job.task.spec))
        self.job, self.weights = Job(task, job.inputs, job.targets, job.sizes, job.training), weights
        self.cohort = self.job.cohort(device, method=method, memory_gb=MEMORY_GB[device])
        self.params = task.initial_parameters(Streams(seed).at("init")).to(device)
        self.seed = seed
        self.kept: Kept | None = None
        counted = getattr(method, "counted", None)
        self.counted = None if counted is None else Counted(counted(task.spec), len(job.sizes))

    def round(self, number: int) -> None:
        """One round of all UEs."""
        ues = np.arange(len(self.job.sizes))
        found = self.cohort.updates(
            self.params,
            ues=ues,
            groups=np.zeros_like(ues),
            num_groups=1,
            streams=Streams(self.seed),
            key=number,
            kept=self.kept,
            weights=self.weights,
        )
        step = found.update[0]
        step = step if self.counted is None else self.counted.of(step, len(ues))
        self.params = self.params - self.job.training.outer_lr * step
        self.kept = found.kept


def plain_job(data_dir: str | None) -> Job:
    """200 UEs of two labels each."""
    images, labels = mnist(data_dir)
    rng = np.random.default_rng(1)
    by_label = [np.flatnonzero(labels == label) for label in range(10)]
    picks = [np.concatenate([by_label[c] for c in rng.choice(10, 2, replace=False)]) for _ in range(UES)]
    order = np.concatenate([rng.choice(own, SAMPLES, replace=False) for own in picks])
    training = LocalTraining(inner_lr=0.03, outer_lr=RATE, batch_size=BATCH, local_epochs=1)
    inputs = torch.from_numpy(images[order].astype(np.float32) / 255)
    task = make_task("mlp", input_shape=(1, 28, 28), num_outputs=10)
    return Job(task, inputs, torch.from_numpy(labels[order]), np.full(UES, SAMPLES), training)


def plain_round(name: str, job: Job) -> Callable[[int], None]:
    """A round of the loop."""
    loop = Loop(job.task.build(), RATE)  # type: ignore[misc]

    def batches(ue: int) -> Pairs:
        rows = ue * SAMPLES + torch.randperm(SAMPLES)
        return [(job.inputs[own], job.targets[own]) for own in rows.split(BATCH)]

    return lambda number: loop.round(batches, UES, PLAIN[name])


def plain_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    job = plain_job(arguments.data_dir)
    for name in PLAIN:
        work = f"plain, {name}"
        if arguments.only in work:
            ours, loop = Ours(name, job, "cpu"), plain_round(name, job)
            loop(-1)
            ours.round(10**6)
            clock = time.process_time if arguments.processor_time else time.perf_counter
            found = timed_in_turn({"ours": ours.round, "loop": loop}, arguments.repeat, "cpu", clock)
            ratio = found["loop"] / found["ours"]
            yield Row(work, found["ours"], "s", 5, ratio >= 5, "plain loop", ratio)


def flute_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    if arguments.only not in "FLUTE" or not arguments.data_dir:
        return
    script = [str(Path(__file__).with_name("flute.py")), "--data-dir", arguments.data_dir]
    ours = _told([sys.executable, "-W", "ignore", *script])["seconds"]
    theirs = None
    if arguments.flower:
        theirs = _told([arguments.flower, "-W", "ignore", *script, "flower"])["seconds"]
    yield Row("FLUTE", ours, "s", 10, ours <= 10, theirs and "flower simulation", theirs and theirs / ours)


def _told(command: list[str]) -> dict[str, Any]:
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object per row")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--repeat", type=int, default=5, help="rounds timed, of which the median counts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true", help='of rows "plain": seconds of the processor')
    parser.add_argument("--data-dir", default=os.environ.get("HPFL_DATA_DIR"))
    parser.add_argument("--flower", default="", help="the Python of an environment with flwr and ray")
    parser.add_argument("--pfllib", default="", help="the folder of PFLlib")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for rows in (plain_rows, flute_rows) if arguments.device == "cpu" else ():
        for row in rows(arguments):
            print(json.dumps(row.__dict__) if arguments.json else row.line(), flush=True)


if __name__ == "__main__":
    main()
