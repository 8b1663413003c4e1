"""CIFAR-10 in its publisher's binary version: 50,000 + 10,000 colour images of 32 x 32."""

from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import IntArray
from hpfl.data.archives import unpack_tar
from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, DownloadProgress
from hpfl.data.download import RemoteFile
from hpfl.data.fetched import fetched_folder
from hpfl.data.folders import find_complete
from hpfl.units import BITS_PER_BYTE

NUM_CLASSES = 10
IMAGE_SHAPE = (3, 32, 32)
SAMPLE_BITS = 3 * 32 * 32 * BITS_PER_BYTE
SUBFOLDER = "cifar-10-batches-bin"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"
FILES = (*TRAIN_FILES, TEST_FILE)
RECORDS_PER_FILE = 10_000
_RECORD_BYTES = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes

# Mean and standard deviation of the training images' channels, as fractions of 255.
CHANNEL_MEAN = (0.4914, 0.4822, 0.4465)
CHANNEL_STD = (0.2470, 0.2435, 0.2616)

REMOTE = RemoteFile(
    "cifar-10-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    170_052_171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)


def load_cifar10(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """CIFAR-10 from `data_dir/cifar-10-batches-bin`, else `data_dir`, else the cache, filled by a download."""
    folder = find_complete([data_dir / SUBFOLDER, data_dir], FILES) if data_dir else None
    if folder is None:
        length = RECORDS_PER_FILE * _RECORD_BYTES
        taken = partial(unpack, file_bytes=length)
        folder = fetched_folder("cifar10", REMOTE, (SUBFOLDER, FILES), taken, data_dir, progress)
    return read_cifar10(folder, records_per_file=RECORDS_PER_FILE)


def read_cifar10(folder: Path, *, records_per_file: int) -> Dataset:
    """A data set of the six binary files in one folder, with exactly so many images in each."""
    inputs, targets = _read_batches([folder / name for name in TRAIN_FILES], records_per_file)
    test_inputs, test_targets = _read_batches([folder / TEST_FILE], records_per_file)
    return Dataset(
        name="cifar10",
        inputs=inputs,
        targets=targets,
        num_classes=NUM_CLASSES,
        test_inputs=test_inputs,
        test_targets=test_targets,
        sample_bits=SAMPLE_BITS,
        mean=CHANNEL_MEAN,
        std=CHANNEL_STD,
    )


def unpack(archive: Path, folder: Path, *, file_bytes: int) -> None:
    """The six files of the publisher's archive into `folder`; whatever else an archive holds is never written."""
    wanted = {f"{SUBFOLDER}/{name}": folder / name for name in FILES}
    unpack_tar(archive, wanted, file_bytes=dict.fromkeys(wanted, file_bytes))


def read_records(path: Path, count: int, *, label_bytes: int, num_classes: int) -> NDArray[np.uint8]:
    """A table [count, bytes] of an image a row, whose last label byte is its class, then its three planes."""
    record_bytes = label_bytes + prod(IMAGE_SHAPE)
    try:
        size_bytes, expected = path.stat().st_size, count * record_bytes
        if size_bytes != expected:
            raise DatasetError(f"{path} has {size_bytes:,} bytes; {count:,} images take {expected:,}")
        table = np.fromfile(path, dtype=np.uint8, count=expected).reshape(count, record_bytes)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    most = table[:, label_bytes - 1].max(initial=0)
    if most >= num_classes:
        raise DatasetError(f"{path}: label {most} found; labels run from 0 to {num_classes - 1}")
    return table


def _read_batches(paths: list[Path], records: int) -> tuple[NDArray[np.uint8], IntArray]:
    parts = [read_records(path, records, label_bytes=1, num_classes=NUM_CLASSES) for path in paths]
    table = np.concatenate(parts)
    return table[:, 1:].reshape(-1, *IMAGE_SHAPE), table[:, 0].astype(np.int64)


CIFAR10 = DatasetSpec(
    name="cifar10",
    num_classes=NUM_CLASSES,
    input_shape=IMAGE_SHAPE,
    num_train=5 * RECORDS_PER_FILE,
    num_test=RECORDS_PER_FILE,
    sample_bits=SAMPLE_BITS,
    load=load_cifar10,
    about="CIFAR-10: 32 x 32 coloured pictures of ten things, 50,000 to train on.",
)
