"""HPFL beside pfl-research 0.6 on the CIFAR-10 job that pfl-research publishes: same model, data and device, in turns.

    python benchmarks/pfl_research.py --python PYTHON --theirs FOLDER [--rounds 21] [--json]

PYTHON has pfl 0.6 and PyTorch; FOLDER is `benchmarks` of its repository (see `benchmarks/pfl_cifar10.py`). The job:
1,000 users of 50 pictures of 3 x 32 x 32, 50 of them a round, one local epoch of batches of 10 with step 0.1, their
mean taken whole; a convolutional network of 1,626,442 parameters. It has dropout, which HPFL does not train with;
theirs is run with it and without. Pictures are drawn at random: no work depends on what they show. A row is the median
round: neither the first nor those with an evaluation are in it. Ours has a clock, joules and records as well.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

import hpfl
from hpfl.experiment import Hooks

BAR = 2.0
USERS, SAMPLES, COHORT, TESTS = 1000, 50, 50, 2


def simple_cnn(input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """Their model of the same name without its dropout: two convolutions, pooling, two dense layers."""
    channels, height, _ = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * ((height - 4) // 2) ** 2, 128),
        nn.ReLU(),
        nn.Linear(128, num_outputs),
    )


def our_rounds(rounds: int, device: str) -> list[float]:
    """The seconds of our rounds, virtual time and files included."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> list[tuple[Any, Any]]:
        return [
            (rng.standard_normal((count, 3, 32, 32), dtype=np.float32), rng.integers(0, 10, count))
            for _ in range(USERS)
        ]

    data = hpfl.FederatedData(train=drawn(SAMPLES), test=drawn(TESTS), edge_of_ue=[0] * USERS, num_classes=10)
    told = {
        "learning.outer_lr": 0.1,
        "learning.local_epochs": 1,
        "learning.batch_size": 10,
        "life.sample_count": COHORT,
        "training.rounds": rounds,
        "training.checkpoint_every": 0,
        "evaluation.every": rounds,
        "evaluation.ues": 10,
    }
    config = hpfl.load("quickstart-paper", system="fl", overrides=[f"{key}={value}" for key, value in told.items()])
    ended: list[float] = []

    def note(_record: Any) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        ended.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        hooks = Hooks(on_round=note)
        hpfl.run(
            config, data=data, model=simple_cnn, device=device, out=Path(folder) / "run", hooks=hooks, figures=False
        )
    return np.diff(ended).tolist()


def their_rounds(python: str, folder: str, rounds: int, *, dropout: bool) -> list[float]:
    """The seconds of their rounds, in a process of their environment."""
    here = str(Path(__file__).with_name("pfl_cifar10.py"))
    with tempfile.TemporaryDirectory() as place:
        command = [python, here, folder, str(rounds), *([] if dropout else ["without-dropout"])]
        made = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, env=dict(os.environ))
    if made.returncode:
        raise SystemExit(f"pfl-research ended with status {made.returncode}:\n{made.stderr[-2000:]}")
    found: list[float] = json.loads(made.stdout.strip().splitlines()[-1])
    return found[1:]


def main() -> None:
    """A table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with pfl 0.6 and PyTorch")
    parser.add_argument("--theirs", required=True, help="the folder `benchmarks` of pfl-research")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours = our_rounds(options.rounds, options.device)
    plain = their_rounds(options.python, options.theirs, options.rounds, dropout=False)
    dropped = their_rounds(options.python, options.theirs, options.rounds, dropout=True)
    for name, theirs in (("without its dropout", plain), ("as it is published", dropped)):
        ratio = median(theirs) / median(ours)
        row = {"work": f"pfl-research {name}", "value": ratio, "unit": "x", "bar": BAR, "ok": ratio >= BAR}
        row |= {"ours_s": median(ours), "theirs_s": median(theirs), "device": options.device}
        told = f"{row['ours_s']:.3f} s a round, pfl-research {row['theirs_s']:.3f} s {name}, on {options.device}"
        verdict = f"{ratio:.2f} x faster   bar {BAR:g} x, {'met' if row['ok'] else 'MISSED'}"
        print(json.dumps(row) if options.json else f"HPFL {told}: {verdict}", flush=True)


if __name__ == "__main__":
    main()
