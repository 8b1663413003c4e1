"""The data sets by name, and where to look for them: a folder the user names, else a cache filled by a download."""

import os
from pathlib import Path

from hpfl.data.cifar10 import CIFAR10
from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, Progress, to_float
from hpfl.data.mini import MNIST_MINI
from hpfl.data.mnist import MNIST
from hpfl.registry import Registry

__all__ = ["DATASETS", "Dataset", "DatasetError", "DatasetSpec", "Progress", "load_dataset", "to_float"]

DATASETS: Registry[DatasetSpec] = Registry("data set")
for _spec in (MNIST_MINI, MNIST, CIFAR10):
    DATASETS.register(_spec.name)(_spec)


def load_dataset(name: str, data_dir: Path | None = None, *, progress: Progress | None = None) -> Dataset:
    """The named data set from `data_dir` (default `HPFL_DATA_DIR`), else from the cache, else downloaded."""
    spec = DATASETS.get(name)
    folder, origin = data_dir, "--data-dir"
    if folder is None and os.environ.get("HPFL_DATA_DIR"):
        folder, origin = Path(os.environ["HPFL_DATA_DIR"]), "HPFL_DATA_DIR"
    if folder is not None and not folder.expanduser().is_dir():
        raise DatasetError(f"{origin} names {folder}, which is not a folder")
    return spec.load(folder.expanduser() if folder else None, progress)
