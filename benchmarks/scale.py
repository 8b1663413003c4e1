"""How far one run and many runs go on one machine: `massive`, blocks, workers of Ray, and small runs side by side.

    .venv/bin/python benchmarks/scale.py [--json] [--only NAME]      NAME: massive, blocks, bits, workers, beside, cost

Rows that want a GPU or 16 cores are left out where there are none. Every run is a process of its own.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

import hpfl
from hpfl.config import with_overrides
from hpfl.experiment import Hooks, run_experiment
from hpfl.learning import Cohort, LocalTraining, make_task
from hpfl.rng import Streams

GPU = torch.cuda.is_available()
CORES = os.cpu_count() or 1
ROUNDS = 4


def row(work: str, value: float, unit: str, bar: float, *, least: bool = False) -> dict[str, Any]:
    """One figure against its bar: at most that, or `least` that."""
    return {"work": work, "value": value, "unit": unit, "bar": bar, "ok": value >= bar if least else value <= bar}


def sha(model: dict[str, torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(own.numpy().tobytes() for own in model.values())).hexdigest()


def played(preset: str, overrides: list[str], **how: Any) -> dict[str, Any]:
    """A run in this process: seconds until it begins and of each round, its peak memory and its model's digest."""
    import resource

    began, times = time.perf_counter(), [time.perf_counter()]
    engine = how.pop("engine", None)
    if engine is not None:
        from hpfl.clusters.spread import RaySpread

        how["spread"] = RaySpread(**engine)

    class Began(hpfl.Watcher):
        def started(self, run: Any) -> None:
            times[0] = time.perf_counter()

    hooks = Hooks(on_round=lambda record: times.append(time.perf_counter()), warn=lambda text: None)
    config = with_overrides(hpfl.preset(preset), overrides)
    result = run_experiment(config, hooks=hooks, watchers=[Began()], **how)
    return {
        "setup_s": times[0] - began,
        "round_s": np.diff(times).tolist(),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "sha": sha(result.model),
    }


def apart(preset: str, overrides: list[str], *, threads: int = 0, **how: Any) -> dict[str, Any]:
    """The same in a process of its own."""
    told = json.dumps({"preset": preset, "overrides": overrides, **how})
    env = os.environ | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    done = subprocess.run(
        [sys.executable, __file__, "--play", told], capture_output=True, text=True, env=env, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def massive() -> Iterator[dict[str, Any]]:
    """`massive`: a round of 100,000 UEs out of a million, setting up, memory."""
    found = apart("massive", [f"training.rounds={ROUNDS}", "evaluation.every=1000"], threads=0 if GPU else 2)
    where = "one GPU" if GPU else "two threads"
    rounds = statistics.median(found["round_s"][1:-1] or found["round_s"])
    yield row(f"massive, a round, {where}", rounds, "s", 0.5 if GPU else 8.0)
    yield row(f"massive, setting up, {where}", found["setup_s"], "s", 10.0 if GPU else 20.0)
    yield row(f"massive, peak memory, {where}", found["peak_gb"], "GB", 4.0)


def blocks() -> Iterator[dict[str, Any]]:
    """The updates of 65,536 UEs in blocks against those in one piece, one after the other, nine times."""
    torch.set_num_threads(2)
    sizes = np.full(65_536, 20)
    draws = torch.Generator().manual_seed(0)
    inputs, targets = torch.rand(4000, 784, generator=draws), torch.randint(0, 10, (4000,), generator=draws)
    start = np.random.default_rng(0).integers(0, 3980, len(sizes))

    class Shards:
        offsets, length = np.arange(len(sizes) + 1), sizes

    Shards.start = start
    task = make_task(lambda: torch.nn.Sequential(torch.nn.Linear(784, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)))
    training = LocalTraining(inner_lr=0.03, outer_lr=0.07)
    data = {"inputs": inputs, "targets": targets, "shards": Shards, "device": "cuda" if GPU else "cpu"}
    cohorts = [Cohort(task, training, **data, block_ues=size) for size in (16_384, 1 << 30)]
    params, ues = task.initial_parameters(Streams(0).at("model")).float(), np.arange(len(sizes))
    asked = {"ues": ues, "groups": ues // 1024, "num_groups": 64, "streams": Streams(0), "key": 1}
    seconds: list[list[float]] = [[], []]
    for _ in range(9):
        for cohort, own in zip(cohorts, seconds, strict=True):
            began = time.perf_counter()
            cohort.updates(params, **asked)
            own.append(time.perf_counter() - began)
    ratios = [one / other for one, other in zip(*(own[1:] for own in seconds), strict=True)]
    yield row("blocks against no blocks, one process", statistics.median(ratios), "times", 1.03)


def bits() -> Iterator[dict[str, Any]]:
    """One model for 1, 2, 4 and 8 workers, and on a CPU for no workers at all."""
    over = ["training.rounds=5", "learning.block_ues=16"]
    counts = (1, 2, 4) if GPU else (1, 2, 4, 8)
    gpus = {workers: 1 / workers if GPU else 0.0 for workers in counts}
    runs = {n: apart("quickstart", over, engine={"workers": n, "gpus_per_worker": gpus[n]}) for n in counts}
    if not GPU:
        runs[0] = apart("quickstart", over, threads=1)
    names = ", ".join(str(number) for number in sorted(runs))
    yield row(f"different models of {names} workers", len({run["sha"] for run in runs.values()}), "models", 1)


def workers() -> Iterator[dict[str, Any]]:
    """`massive` on 8 workers of 2 threads against one of 2."""
    if CORES < 16:
        return
    over, found = [f"training.rounds={ROUNDS}", "evaluation.every=1000"], {}
    for count in (1, 8):
        run = apart("massive", over, engine={"workers": count, "cpus_per_worker": 2})
        found[count] = statistics.median(run["round_s"][1:-1])
    yield row("massive, a round, 8 workers x 2 threads against 1 x 2", found[1] / found[8], "times", 6.0, least=True)


def beside() -> Iterator[dict[str, Any]]:
    """Small runs on one GPU, sixteen processes at a time, against one after another."""
    if not GPU:
        return
    from hpfl.sweeps.sweeping import Cluster

    speeds = {}
    for count in (1, 16):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            hpfl.sweep(
                "paper-mnist",
                out=Path(folder) / "sweep",
                engine="ray",
                workers=count,
                cluster=Cluster(gpus_per_run=1 / count),
                seeds=2 * count,
                set={"training.rounds": 100},
                outputs=[],
                progress=False,
            )
            speeds[count] = 2 * count / (time.perf_counter() - began) * 60
    yield row(
        "paper-mnist, runs a minute, 16 side by side against one", speeds[16] / speeds[1], "times", 8.0, least=True
    )


def cost() -> Iterator[dict[str, Any]]:
    """What a UE costs among 10^6 participants against 10^4, on a GPU."""
    if not GPU:
        return
    each = {}
    for edges in (10, 1000):
        over = [f"network.edges={edges}", "life.sample_fraction=1", "training.rounds=7", "evaluation.every=1000"]
        run = apart("massive", [*over, "evaluation.ues=1000", f"planning.max_edges={edges}"])
        each[edges] = statistics.median(run["round_s"][1:-1]) / (1000 * edges)
    yield row("cost per UE, 10^6 participants against 10^4", each[1000] / each[10], "times", 1.05)


PARTS = {own.__name__: own for own in (massive, blocks, bits, workers, beside, cost)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a row of JSON for each figure")
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--play", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        print(json.dumps(played(**json.loads(given.play))))
        return
    for name in given.only or PARTS:
        for found in PARTS[name]():
            if given.json:
                print(json.dumps(found), flush=True)
            else:
                mark = "ok" if found["ok"] else "MISSED"
                print(
                    f"{found['work']:62} {found['value']:9.3f} {found['unit']:7} bar {found['bar']:g}  {mark}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
