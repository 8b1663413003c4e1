"""pfl-research's published CIFAR-10 job as it is, on arrays of CIFAR-10's shape; prints the seconds of its rounds.

    PYTHON benchmarks/pfl_cifar10.py THEIR_BENCHMARKS [ROUNDS [without-dropout]]     # PYTHON: with pfl 0.6, PyTorch

THEIR_BENCHMARKS is the folder `benchmarks` of their repository. Its `image_classification/pytorch/train.py` runs with
its `configs/baseline.yaml`: `simple_cnn`, 1,000 users of 50 pictures, 50 users a round, one local epoch of batches of
10, evaluation of 10,000 pictures every tenth round. Two things are ours: the pictures, drawn at random instead of read
from a pickle, and a callback that notes when each round ended.
"""

import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def drawn(path: str, means: Any = None, stddevs: Any = None, exclude_classes: Any = None) -> Any:
    """Pictures and labels of the shape that the file at `path` would have."""
    count = 50_000 if "train" in path else 10_000
    rng = np.random.default_rng(count)
    images = rng.standard_normal((count, 32, 32, 3), dtype=np.float32)
    return images, rng.integers(0, 10, (count, 1)), np.zeros(3), np.ones(3)


def main(folder: str, rounds: str = "21", dropout: str = "") -> None:
    """Run it; the seconds of every round, its evaluation included, as JSON on the last line."""
    sys.path[:0] = [folder, str(Path(folder) / "image_classification" / "pytorch")]
    import dataset.cifar10.numpy as cifar10
    from pfl.algorithm.base import FederatedAlgorithm
    from pfl.callback.base import TrainingProcessCallback

    cifar10.load_and_preprocess = drawn
    if dropout == "without-dropout":
        import torch

        torch.nn.Dropout = lambda share: torch.nn.Identity()
    ended = [0.0]

    class Clock(TrainingProcessCallback):
        def on_train_begin(self, *, model: Any) -> Any:
            found = super().on_train_begin(model=model)
            ended[0] = time.perf_counter()
            return found

        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            ended.append(_now())
            return super().after_central_iteration(aggregate_metrics, model, central_iteration=central_iteration)

    plainly = FederatedAlgorithm.run

    def timed(self: Any, *given: Any, callbacks: Any = (), **named: Any) -> Any:
        return plainly(self, *given, callbacks=[*callbacks, Clock()], **named)

    FederatedAlgorithm.run = timed
    train = Path(folder) / "image_classification" / "pytorch" / "train.py"
    config = Path(folder) / "image_classification" / "configs" / "baseline.yaml"
    sys.argv = [str(train), "--args_config", str(config), "--central_num_iterations", rounds]
    runpy.run_path(str(train), run_name="__main__")
    print(json.dumps(np.diff(ended).tolist()))


def _now() -> float:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main(*sys.argv[1:])
