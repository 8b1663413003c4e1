"""Where the seconds of `massive` go: imports, set-up, rounds by function, and what a GPU does in one round."""

import cProfile
import io
import os
import pstats
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
T0 = time.perf_counter()


def said(*what):
    print(f"[{time.perf_counter() - T0:7.2f}]", *what, flush=True)


import numpy as np
import torch

said("torch imported")
import hpfl
from hpfl.config import with_overrides
from hpfl.experiment import Hooks, run_experiment

said("hpfl imported", hpfl.__file__)
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
torch.zeros(1, device=DEVICE) + 1
said("device ready", DEVICE, os.cpu_count(), torch.get_num_threads(), "mps", shutil.which("nvidia-cuda-mps-control"))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
OVER = sys.argv[2:]


def table(profile, key, count):
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats(key).print_stats(count)
    for line in out.getvalue().splitlines():
        fields = line.split()
        if (
            len(fields) >= 6
            and fields[1].replace(".", "").isdigit()
            and float(fields[3 if key == "cumulative" else 1]) > 0.004
        ):
            print(fields[0], fields[1], fields[3], " ".join(fields[5:]).split("/")[-1])


setup, host = cProfile.Profile(), cProfile.Profile()
gpu = None
if GPU:
    from torch.profiler import ProfilerActivity, profile

    gpu = profile(activities=[ProfilerActivity.CUDA])
times = []


def synced():
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter()


class Began(hpfl.Watcher):
    def started(self, run):
        setup.disable()
        said("set up")
        times.append(synced())


def on_round(record):
    times.append(synced())
    said(
        "round",
        len(times) - 1,
        f"{times[-1] - times[-2]:.3f} s",
        "aggregated",
        record.num_aggregated,
        "planning",
        round(record.planning_s, 3),
    )
    n = len(times) - 1
    if n == ROUNDS - 3:
        host.enable()
    if n == ROUNDS - 1:
        host.disable()
        if gpu is not None:
            gpu.__enter__()


config = with_overrides(hpfl.preset("massive"), [f"training.rounds={ROUNDS}", "evaluation.every=1000", *OVER])
setup.enable()
run_experiment(config, hooks=Hooks(on_round=on_round, warn=lambda text: None), watchers=[Began()], device=DEVICE)
said("done")
if gpu is not None:
    gpu.__exit__(None, None, None)
print(
    "rounds",
    np.round(np.diff(times), 3).tolist(),
    "median of all but first",
    float(np.median(np.diff(times)[1 : max(ROUNDS - 3, 2)])),
)
if GPU:
    print("peak GPU GB", torch.cuda.max_memory_allocated() / 1e9)
print("== set-up")
table(setup, "tottime", 14)
table(setup, "cumulative", 45)
print("== two rounds")
table(host, "tottime", 32)
table(host, "cumulative", 36)
if gpu is not None:
    print("== GPU, last round and evaluation")
    print(gpu.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=60)[-5500:])
