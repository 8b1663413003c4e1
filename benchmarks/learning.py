"""Personalised gradients per second, beside the baselines people would otherwise use.

    .venv/bin/python benchmarks/learning.py [--json] [--device cuda] [--only J1] [--repeat 5] [--data-dir DIR]

Job J1: 200 UEs with 2 labels and 300 MNIST samples each, MLP 784-100-10, full batch, one exact personalised gradient per
UE, summed over 20 edges. J2: the same with batches of 32. `fedavg` rows are the same jobs without inner step. LeNet:
200 UEs with 250 CIFAR-shaped images, batch 32. Images come from the folder given (or HPFL_DATA_DIR), else from the
sample of MNIST in the package; CIFAR-shaped images are random, since time does not depend on them.

Baselines always measured: a lean hand-written PyTorch loop over UEs, and torch.func (vmap over UEs). Others are measured
where they are installed, each of which may want an environment of its own beside this one:

    pip install jax                      # rows "jax"
    pip install pfl torch                # rows "pfl-research": its user training step, without its data loading
    pip install flwr torch               # rows "flower": its in-memory simulation messages around the hand loop's step
"""

import argparse
import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))
if importlib.util.find_spec("pydantic") is None:  # a bare GPU machine: the learning part alone needs only torch
    sys.modules["hpfl"] = types.ModuleType("hpfl")
    sys.modules["hpfl"].__path__ = [str(SOURCE / "hpfl")]

from hpfl.learning import Cohort, LocalTraining, Task, make_task
from hpfl.rng import Streams

UES, EDGES = 200, 20


@dataclass(frozen=True)
class Shards:
    """Shards one after the other."""

    offsets: np.ndarray
    start: np.ndarray
    length: np.ndarray

    @staticmethod
    def of(sizes: np.ndarray) -> "Shards":
        return Shards(np.arange(len(sizes) + 1), np.cumsum(sizes) - sizes, sizes)


@dataclass(frozen=True)
class Job:
    """Arranged data and what to do with them."""

    task: Task
    inputs: Tensor
    targets: Tensor
    sizes: np.ndarray
    training: LocalTraining

    def cohort(self, device: str, **options: Any) -> Cohort:
        shards = Shards.of(self.sizes)
        return Cohort(
            self.task, self.training, inputs=self.inputs, targets=self.targets, shards=shards, device=device, **options
        )

    def start(self) -> Tensor:
        return self.task.initial_parameters(Streams(0).at("init"))


def mnist(data_dir: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Real images where there are some."""
    try:
        import gzip

        if data_dir is not None:
            folder = Path(data_dir) / "mnist"
            images = np.frombuffer(
                gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes()), np.uint8, -1, 16
            )
            labels = np.frombuffer(
                gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes()), np.uint8, -1, 8
            )
            return images.reshape(-1, 1, 28, 28), labels.astype(np.int64)
        from hpfl.data import load_dataset

        mini = load_dataset("mnist-mini")
        return mini.inputs, mini.targets
    except (ImportError, OSError):
        rng = np.random.default_rng(0)
        return rng.integers(0, 256, (12000, 1, 28, 28), dtype=np.uint8), rng.integers(0, 10, 12000)


def two_label_job(sizes: np.ndarray, training: LocalTraining, data_dir: str | None) -> Job:
    """UEs with two labels each; shards may overlap."""
    images, labels = mnist(data_dir)
    rng = np.random.default_rng(1)
    by_label = [np.flatnonzero(labels == label) for label in range(10)]
    rows = []
    for size in sizes:
        own = np.concatenate([by_label[label] for label in rng.choice(10, 2, replace=False)])
        rows.append(rng.choice(own, size, replace=False))
    order = np.concatenate(rows)
    task = make_task("mlp", input_shape=(1, 28, 28), num_outputs=10)
    inputs = torch.from_numpy(images[order].astype(np.float32) / 255)
    return Job(task, inputs, torch.from_numpy(labels[order]), sizes, training)


def cifar_job(sizes: np.ndarray, training: LocalTraining) -> Job:
    rng = np.random.default_rng(2)
    images = torch.from_numpy(rng.integers(0, 256, (int(sizes.sum()), 3, 32, 32), dtype=np.uint8))
    targets = torch.from_numpy(rng.integers(0, 10, int(sizes.sum())))
    task = make_task("lenet5", input_shape=(3, 32, 32), num_outputs=10)
    return Job(task, images, targets, sizes, training)


def timed(step: Callable[[int], object], repeat: int, device: str) -> float:
    """Median seconds of a call, after one to warm up."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    step(0)
    wait()
    seconds = []
    for number in range(1, repeat + 1):
        begin = time.perf_counter()
        step(number)
        wait()
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def ours(job: Job, device: str, **options: Any) -> Callable[[int], Any]:
    cohort, start = job.cohort(device, **options), job.start().to(device)
    ues, groups = np.arange(UES), np.repeat(np.arange(EDGES), UES // EDGES)

    def step(number: int) -> Any:
        return cohort.updates(start, ues=ues, groups=groups, num_groups=EDGES, streams=Streams(0), key=number)

    return step


def _drawn(job: Job, rng: np.random.Generator, ue: int) -> tuple[Tensor, Tensor]:
    first = int(job.sizes[:ue].sum())
    if job.training.batch_size is None:
        rows: Any = slice(first, first + int(job.sizes[ue]))
    else:
        rows = torch.from_numpy(first + rng.choice(job.sizes[ue], job.training.batch_size, replace=False))
    inputs = job.inputs[rows]
    return (inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs), job.targets[rows]


def hand_loop(job: Job) -> Callable[[int], Any]:
    """What one would write: autograd through one inner step, UE by UE."""
    spec, start, alpha = job.task.spec, job.start(), job.training.inner_lr
    rng = np.random.default_rng(0)

    def forward(weights: list[Tensor], inputs: Tensor) -> Tensor:
        if len(weights) == 4:
            hidden = F.linear(inputs.flatten(1), weights[0], weights[1]).relu()
            return F.linear(hidden, weights[2], weights[3])
        rows = F.max_pool2d(F.conv2d(inputs, weights[0], weights[1]).relu(), 2)
        rows = F.max_pool2d(F.conv2d(rows, weights[2], weights[3]).relu(), 2).flatten(1)
        rows = F.linear(F.linear(rows, weights[4], weights[5]).relu(), weights[6], weights[7]).relu()
        return F.linear(rows, weights[8], weights[9])

    def meta_gradient(weights: list[Tensor], inputs: Tensor, targets: Tensor) -> Any:
        loss = F.cross_entropy(forward(weights, inputs), targets)
        if alpha == 0:
            return torch.autograd.grad(loss, weights)
        gradient = torch.autograd.grad(loss, weights, create_graph=True)
        adapted = [(w - alpha * g).detach().requires_grad_() for w, g in zip(weights, gradient, strict=True)]
        outer = torch.autograd.grad(F.cross_entropy(forward(adapted, inputs), targets), adapted)
        product = torch.autograd.grad(gradient, weights, outer)
        return [v - alpha * h for v, h in zip(outer, product, strict=True)]

    def step(number: int) -> Any:
        weights = [w.clone().requires_grad_() for w in spec.unflatten(start).values()]
        sums = [[torch.zeros_like(w) for w in weights] for _ in range(EDGES)]
        for ue in range(UES):
            for total, part in zip(sums[ue * EDGES // UES], meta_gradient(weights, *_drawn(job, rng, ue)), strict=True):
                total += part
        return torch.stack([torch.cat([p.reshape(-1) for p in part]) for part in sums]) * (EDGES / UES)

    return step


def torch_func(job: Job, chunk: int) -> Callable[[int], Any]:
    """vmap over UEs of grad through grad, in chunks."""
    spec, start, alpha = job.task.spec, job.start(), job.training.inner_lr
    module = job.task.module
    rng = np.random.default_rng(0)

    def loss(parameters: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(module, parameters, (inputs,)), targets)

    def meta_loss(parameters: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        if alpha == 0:
            return loss(parameters, inputs, targets)
        gradient = torch.func.grad(loss)(parameters, inputs, targets)
        return loss({n: p - alpha * gradient[n] for n, p in parameters.items()}, inputs, targets)

    each = torch.func.vmap(torch.func.grad(meta_loss), in_dims=(None, 0, 0))

    def step(number: int) -> Any:
        parameters = spec.unflatten(start)
        total = torch.zeros(EDGES, spec.num_parameters)
        for first in range(0, UES, chunk):
            batches = [_drawn(job, rng, ue) for ue in range(first, first + chunk)]
            inputs, targets = (torch.stack(parts) for parts in zip(*batches, strict=True))
            gradients = each(parameters, inputs, targets)
            flat = torch.cat([gradients[name].flatten(1) for name in spec.names], 1)
            total.index_add_(0, torch.arange(first, first + chunk) * EDGES // UES, flat)
        return total * (EDGES / UES)

    return step
