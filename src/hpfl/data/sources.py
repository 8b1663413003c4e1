"""Data sets by name, and where to look for them: a folder the user names, a cache filled by a download, own samples.

Besides the registered names, `folder:PATH` reads users' own samples from files and `module:function` calls a function
that returns them (`FederatedData`), or a `Dataset` to be dealt by a partitioner.
"""

import os
from pathlib import Path
from typing import Any

from hpfl.data.cifar10 import CIFAR10
from hpfl.data.cifar100 import CIFAR100
from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, DownloadProgress, to_float
from hpfl.data.emnist import EMNIST
from hpfl.data.fashion_mnist import FASHION_MNIST
from hpfl.data.federated import FederatedData
from hpfl.data.mini import MNIST_MINI
from hpfl.data.mnist import MNIST
from hpfl.data.own_files import is_pooled, read_folder, read_pooled
from hpfl.data.uci_har import UCI_HAR
from hpfl.registry import Registry, UnknownNameError

__all__ = ["DATASETS", "Dataset", "DatasetError", "DatasetSpec", "DownloadProgress", "load_dataset", "to_float"]

DATASETS: Registry[DatasetSpec] = Registry("data set", plural="datasets", called=())
for _spec in (MNIST_MINI, MNIST, FASHION_MNIST, *EMNIST, CIFAR10, CIFAR100, *UCI_HAR):
    DATASETS.register(_spec.name)(_spec)

GIVEN = "given"
"""What `data.dataset` says of samples that were handed over in Python."""
_FOLDER = "folder:"


def is_registered(name: str) -> bool:
    """Whether a data set goes by a name of its own, so that all who know the name mean the same samples."""
    return name != GIVEN and ":" not in name


def check_source(name: str) -> None:
    """Refuse a name that stands for no data set; whether a folder holds what it should is seen when it is read."""
    if is_registered(name):
        _check_spec(name)
    elif name == _FOLDER:
        raise UnknownNameError("wanted a path after folder:")
    elif names_part(name):
        DATASETS.part(name)


def _check_spec(name: str) -> None:
    """Refuse a function under a registered name: what it returns has no name that all mean the same samples by."""
    made = DATASETS.part(name).made
    if not hasattr(made, "num_classes"):
        raise UnknownNameError(f"wanted a DatasetSpec under that name, not {type(made).__name__}: name module:function")


def names_part(name: str) -> bool:
    """Whether a data set is a part, registered or `module:function`; not a folder, nor what was handed over."""
    return name != GIVEN and not name.startswith(_FOLDER)


def load_dataset(
    name: str, data_dir: Path | None = None, *, progress: DownloadProgress | None = None, options: Any = None
) -> Dataset:
    """The named data set from `data_dir` (default `HPFL_DATA_DIR`), else from the cache, else downloaded.

    `options` are the validated options of a data set that has some (None: as they are by default).
    """
    if name == GIVEN:
        raise DatasetError(
            'data.dataset is "given": the samples were handed over in Python; hand them over again with '
            "hpfl.run(config, data=...), or save them with FederatedData.save(PATH) and name folder:PATH"
        )
    if name.startswith(_FOLDER):
        own = Path(name.removeprefix(_FOLDER)).expanduser()
        return read_pooled(own) if is_pooled(own) else read_folder(own).dataset
    if not is_registered(name):
        return _from_function(name, options)
    spec = DATASETS.part(name).bound(options)
    folder, origin = data_dir, "--data-dir"
    if folder is None and os.environ.get("HPFL_DATA_DIR"):
        folder, origin = Path(os.environ["HPFL_DATA_DIR"]), "HPFL_DATA_DIR"
    if folder is not None and not folder.expanduser().is_dir():
        raise DatasetError(f"{origin} names {folder}, which is not a folder")
    return spec.load(folder.expanduser() if folder else None, progress)


def described(name: str, options: Any = None) -> DatasetSpec:
    """What is known of a data set; one that is not registered is read for it."""
    if is_registered(name):
        return DATASETS.part(name).bound(options)
    data = load_dataset(name, options=options)
    return DatasetSpec(
        name=name,
        num_classes=data.num_classes,
        input_shape=data.input_shape,
        num_train=data.num_train,
        num_test=len(data.test_targets),
        sample_bits=data.sample_bits,
        load=lambda data_dir, progress: data,
        num_values=data.num_outputs,
    )


def _from_function(name: str, options: Any) -> Dataset:
    try:
        function: Any = DATASETS.part(name).bound(options)
    except UnknownNameError as error:
        raise DatasetError(f"data.dataset is {name!r}; {error}") from None
    came = function()
    if isinstance(came, FederatedData):
        return came.dataset
    if isinstance(came, Dataset):
        return came
    raise DatasetError(f"{name} returned {type(came).__name__}; wanted hpfl.FederatedData")
