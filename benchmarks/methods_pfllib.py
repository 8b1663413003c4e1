"""Methods beside PFLlib, run as it is: seconds of a round, and accuracies after some, on one split given to both.

    python benchmarks/methods_pfllib.py --pfllib DIR --data-dir DIR [--device cuda] [--share 0.2] [--seeds 5]

20 UEs, all take part, batches of 10, one local epoch, the 4-layer CNN, rate 0.005, Dirichlet 0.1. The data are
`--share` of a set's train and test samples together, as PFLlib deals them: three quarters of a UE's are trained on.
Training shards have whole batches, since PFLlib drops a rest.

DIR is PFLlib's folder (commit d832e76 of TsingZ0/PFLlib). It is copied to a folder of its own, with the split in its
own format, and its `main.py` is called there; what it imports and the job does not use (torchvision's models, AUC,
HDF5) is left out where it is not installed. With `--seeds`, accuracies in place of seconds.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

UES, BATCH, RATE, CONCENTRATION, LEAST = 20, 10, 0.005, 0.1, 40
PFLLIB = {  # ours, theirs: its name, its options, our options
    "local": ("Local", [], {}),
    "fedavg": ("FedAvg", [], {}),
    "fedprox": ("FedProx", ["-mu", "0.1"], {"mu": 0.1}),
    "per-fedavg": ("PerAvg", [], {"gradient": "first-order"}),
    "pfedme": ("pFedMe", ["-lam", "15", "-lrp", "0.01", "-bt", "1.0", "-K", "5"], {"personal_lr": 0.01}),
    "ditto": ("Ditto", ["-mu", "0.1", "-pls", "1"], {"penalty": 0.1}),
    "apfl": ("APFL", ["-al", "0.5"], {"alpha": 0.5}),
    "fedper": ("FedPer", [], {}),
    "fedrep": ("FedRep", ["-pls", "1"], {"head_passes": 1, "momentum": 0.0}),
    "fedbabu": ("FedBABU", ["-fte", "0"], {"momentum": 0.0, "finetune_steps": 0}),
    "fedala": ("FedALA", ["-p", "2", "-s", "80"], {}),
    "scaffold": ("SCAFFOLD", [], {}),
}
SHARED = {"fedavg", "fedprox", "fedbabu", "scaffold", "pfedme"}  # evaluated with the model that all share
SETS = {"MNIST": ("mnist", (1, 28, 28), 1024), "Cifar10": ("cifar10", (3, 32, 32), 1600)}


@dataclass(frozen=True)
class Split:
    """Samples of every UE, one after the other, in [-1, 1]."""

    train: tuple[np.ndarray, np.ndarray, np.ndarray]  # inputs, labels, sizes
    test: tuple[np.ndarray, np.ndarray, np.ndarray]


def loaded(name: str, data_dir: Path) -> tuple[np.ndarray, np.ndarray]:
    """All samples of a set, those to test with after those to train on, as bytes."""
    if name == "MNIST":
        parts = []
        for kind in ("train", "t10k"):
            for what, skip in (("images-idx3", 16), ("labels-idx1", 8)):
                raw = gzip.decompress((data_dir / "mnist" / f"{kind}-{what}-ubyte.gz").read_bytes())
                parts.append(np.frombuffer(raw, np.uint8, -1, skip))
        images = np.concatenate([parts[0], parts[2]]).reshape(-1, 1, 28, 28)
        return images, np.concatenate([parts[1], parts[3]])
    files = sorted((data_dir / "cifar-10-batches-bin").glob("*_batch*.bin"))
    rows = np.concatenate([np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, 3073) for file in files])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def split(name: str, data_dir: Path, share: float) -> Split:
    """Dirichlet 0.1 as PFLlib deals it: a UE that has its share of all samples is dealt no more."""
    images, labels = loaded(name, data_dir)
    rng = np.random.default_rng(7)
    some = rng.permutation(len(labels))[: int(len(labels) * share)]
    least, wanted = 0, min(LEAST, max(len(some) // (UES * 5), 14))
    while least < wanted:
        held: list[list[int]] = [[] for _ in range(UES)]
        for label in range(10):
            own = some[labels[some] == label]
            open_to = np.array([len(one) < len(some) / UES for one in held])
            parts = rng.dirichlet(np.full(UES, CONCENTRATION)) * open_to
            cuts = (np.cumsum(parts / parts.sum()) * len(own)).astype(int)[:-1]
            for one, more in zip(held, np.split(own, cuts), strict=True):
                one.extend(more.tolist())
        least = min(map(len, held))
    train, test = [], []
    for one in held:
        mixed = rng.permutation(one)
        cut = int(len(mixed) * 0.75) // BATCH * BATCH
        train.append(mixed[:cut])
        test.append(mixed[cut:])

    def taken(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.concatenate(parts)
        return images[rows].astype(np.float32) / 127.5 - 1, labels[rows].astype(np.int64), np.array([*map(len, parts)])

    return Split(taken(train), taken(test))


def handed(pfllib: Path, folder: Path, name: str, data: Split) -> None:
    """PFLlib's sources with the split in its own format, which pickles a dictionary into an archive."""
    shutil.copytree(pfllib / "system", folder / "system")
    for kind, (inputs, labels, sizes) in (("train", data.train), ("test", data.test)):
        into = folder / "dataset" / name / kind
        into.mkdir(parents=True)
        ends = np.cumsum(sizes)
        for ue, (end, size) in enumerate(zip(ends, sizes, strict=True)):
            own = slice(end - size, end)
            with (into / f"{ue}.npz").open("wb") as file:
                np.savez_compressed(file, data=np.array({"x": inputs[own], "y": labels[own]}, dtype=object))


def left_out() -> None:
    """Stand in for what PFLlib imports and this job does not use, where it is not installed."""

    class Anything(types.ModuleType):
        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.__spec__ = ModuleSpec(name, None)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything(name)

        def __call__(self, *given: Any, **named: Any) -> Any:
            return self

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *given: Any) -> None:
            return None

    def missing(name: str) -> bool:
        try:
            __import__(name)
        except Exception:  # noqa: BLE001  whatever keeps it from loading
            return True
        return False

    for name in ("torchvision", "h5py", "calmsize", "cvxpy", "matplotlib", "sklearn"):
        if missing(name):
            for own in [one for one in sys.modules if one.split(".")[0] == name]:
                del sys.modules[own]
            sys.modules[name] = Anything(name)
            for part in ("pyplot", "preprocessing", "metrics"):
                sys.modules[f"{name}.{part}"] = Anything(part)
    if isinstance(sys.modules.get("sklearn"), Anything):
        sys.modules["sklearn.preprocessing"].label_binarize = lambda y, classes: np.eye(len(classes))[y]  # type: ignore[attr-defined]
        sys.modules["sklearn"].metrics = types.SimpleNamespace(roc_auc_score=lambda *given, **named: 0.0)  # type: ignore[attr-defined]


def called(folder: str, seed: int, arguments: list[str]) -> None:
    """Call PFLlib's `main.py` in this process; it fixes its seeds to 0, and these are moved on by one's own."""
    import runpy

    import torch

    left_out()
    os.chdir(Path(folder) / "system")
    sys.path.insert(0, ".")
    sys.argv = ["main.py", *arguments]
    fixed = torch.manual_seed
    torch.manual_seed = lambda given: fixed(given + seed)
    np.random.seed(seed)  # noqa: NPY002  it draws from there
    runpy.run_path("main.py", run_name="__main__")


def theirs(
    folder: Path, name: str, method: str, *, device: str, rounds: int, every: int, seed: int, threads: int
) -> dict[str, Any]:
    """Seconds of each round, and the last accuracy that PFLlib prints."""
    algorithm, options, _ = PFLLIB[method]
    given = ["-data", name, "-m", "CNN", "-algo", algorithm, "-dev", device, "-nc", str(UES), "-lbs", str(BATCH)]
    given += ["-lr", str(RATE), "-gr", str(rounds), "-eg", str(every), *options]
    own = Path(tempfile.mkdtemp(dir=folder))  # it writes results beside its sources
    shutil.copytree(folder / "system", own / "system")
    (own / "dataset").symlink_to(folder / "dataset")
    command = [sys.executable, __file__, "--call", str(own), str(seed), *given]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if "Average time cost per round" not in found.stdout:  # what it does with files behind that is of no account
        return {"failed": found.stderr.strip().splitlines()[-1]}
    seconds = [float(v) for v in re.findall(r"time cost -+ ([\d.e-]+)", found.stdout)]
    accuracies = [float(v) for v in re.findall(r"Average[d]? Test Accuracy: ([\d.]+)", found.stdout)]
    return {"seconds": seconds, "accuracy": accuracies[-1] if accuracies else None}


def cnn(name: str, seed: int) -> Any:
    """The 4-layer CNN of PFLlib, with the values its seed gives."""
    import torch
    from torch import nn

    _, shape, features = SETS[name]
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(features, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


def ours(name: str, data: Split, method: str, device: str, seed: int) -> Any:
    """Our rounds of the same job."""
    import torch

    from hpfl.learning import LocalTraining, make_task
    from learning import Job
    from methods import Ours

    inputs, labels, sizes = data.train
    training = LocalTraining(
        inner_lr=RATE, outer_lr=RATE, batch_size=BATCH, local_epochs=1, batches="independent", objective="first-order"
    )
    job = Job(make_task(cnn(name, seed)), torch.from_numpy(inputs), torch.from_numpy(labels), sizes, training)
    weights = None if method == "scaffold" else sizes  # as PFLlib has it
    return Ours(method, job, device, weights, seed, **PFLLIB[method][2])


def accuracy(found: Any, data: Split, method: str) -> float:
    """Share of right answers over the test samples of all UEs."""
    import torch

    from hpfl.learning import TestData
    from learning import Shards

    inputs, labels, sizes = data.test
    test = TestData(torch.from_numpy(inputs), torch.from_numpy(labels), Shards.of(sizes))
    figures = found.cohort.evaluate(found.params, test, inner_lr=RATE, kept=found.kept)
    each = figures["global_accuracy" if method in SHARED else "personalised_accuracy"]
    return float(np.average(each, weights=sizes))


def timed(found: Any, rounds: int, device: str) -> tuple[float, float]:
    """Seconds of the first round, in which a GPU records, and the median of the others."""
    import torch

    seconds = []
    for number in range(rounds + 1):
        begin = time.perf_counter()
        found.round(number)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return seconds[0], median(seconds[1:])


def speeds(folder: Path, name: str, data: Split, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Seconds of a round without evaluation, method by method, ours beside theirs."""
    import torch

    bar = 3 if arguments.device == "cpu" else 20
    for method in chosen(arguments):
        found = ours(name, data, method, arguments.device, 0)
        if arguments.eager:
            object.__setattr__(found.cohort.engine, "stages", None)
            found.cohort.chunk = UES
        first, own = timed(found, arguments.repeat, arguments.device)
        del found
        run = {"device": arguments.device, "rounds": 2, "every": 10**6, "seed": 0}
        told = theirs(folder, name, method, threads=torch.get_num_threads(), **run)
        work = f"pfllib, {name}, {method}"
        row = {"work": work, "value": own, "unit": "s", "bar": bar, "baseline": "PFLlib", "first_round": first}
        if "failed" in told:
            yield {**row, "ok": None, "failed": told["failed"]}
        else:
            other = told["seconds"][-1]  # FedALA's first rounds take longer
            yield {**row, "ok": other >= bar * own, "theirs": other, "ratio": other / own}


def accuracies(folder: Path, name: str, data: Split, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Accuracies after some rounds over seeds: PFLlib's runs side by side, ours one after the other."""
    rounds, seeds = arguments.rounds, range(arguments.seeds)
    run = {"device": arguments.device, "rounds": rounds, "every": rounds, "threads": 1}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = {
            method: [pool.submit(theirs, folder, name, method, seed=seed, **run) for seed in seeds]
            for method in chosen(arguments)
        }
        for method, futures in waiting.items():
            own = []
            for seed in seeds:
                found = ours(name, data, method, arguments.device, seed)
                for number in range(rounds):
                    found.round(number)
                own.append(100 * accuracy(found, data, method))
            told = [future.result() for future in futures]
            other = [100 * one["accuracy"] for one in told if one.get("accuracy") is not None]
            row = {"work": f"accuracy, {name}, {method}", "value": mean(own), "unit": "%", "bar": 1.0, "ours": own}
            if len(other) < len(own):
                yield {**row, "ok": None, "failed": str(told[-1])[-300:]}
            else:
                gap = mean(own) - mean(other)
                yield {**row, "ok": abs(gap) <= 1, "theirs": other, "gap": gap, "rounds": rounds}


def chosen(arguments: argparse.Namespace) -> list[str]:
    return [method for method in PFLLIB if not arguments.methods or method in arguments.methods.split(",")]


def main() -> None:
    if sys.argv[1:2] == ["--call"]:
        called(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pfllib", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--share", type=float, default=0.05, help="of all samples of a set")
    parser.add_argument("--sets", default="MNIST,Cifar10")
    parser.add_argument("--methods", default="", help="some, by name; none: all that both have")
    parser.add_argument("--repeat", type=int, default=3, help="rounds of ours that are timed, after the first")
    parser.add_argument("--seeds", type=int, default=0, help="accuracies over so many seeds")
    parser.add_argument("--rounds", type=int, default=20, help="before accuracies are compared")
    parser.add_argument("--jobs", type=int, default=2, help="runs of PFLlib side by side, for accuracies")
    parser.add_argument("--eager", action="store_true", help="on a GPU, launch what would be recorded")
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            data = split(name, arguments.data_dir, arguments.share)
            handed(arguments.pfllib, folder, name, data)
            about = {"set": name, "samples": int(data.train[2].sum()), "largest": int(data.train[2].max())}
            print(json.dumps(about), flush=True)
            work = accuracies if arguments.seeds else speeds
            for row in work(folder, name, data, arguments):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parent)]
    main()
