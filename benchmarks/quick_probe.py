"""Seconds of `quickstart --rounds 30` with one thread, twice, and what the machine is."""

import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
import torch

torch.set_num_threads(1)
import hpfl
from hpfl.config import with_overrides
from hpfl.experiment import Hooks, run_experiment

a = torch.rand(2000, 2000)
a @ a
t = time.perf_counter()
for _ in range(5):
    a @ a
print("one core", 5 * 16 / (time.perf_counter() - t), "GF/s;", torch.__version__, os.cpu_count(), "CPUs; MPS:", shutil.which("nvidia-cuda-mps-control"), shutil.which("nvidia-smi"))
for _ in range(2):
    t, c = time.perf_counter(), time.process_time()
    run_experiment(with_overrides(hpfl.preset("quickstart"), ["training.rounds=30"]), hooks=Hooks(warn=lambda t: None), device="cpu")
    print("quickstart, 30 rounds: wall", time.perf_counter() - t, "cpu", time.process_time() - c, flush=True)
