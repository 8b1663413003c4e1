"""CIFAR-100 in its publisher's binary version: 50,000 + 10,000 colour images of 32 x 32, of a hundred things."""

from functools import partial
from pathlib import Path

import numpy as np

from hpfl.data.archives import unpack_tar
from hpfl.data.cifar10 import IMAGE_SHAPE, SAMPLE_BITS, read_records
from hpfl.data.dataset import Dataset, DatasetSpec, DownloadProgress
from hpfl.data.download import RemoteFile
from hpfl.data.fetched import fetched_folder
from hpfl.data.folders import find_complete

NUM_CLASSES = 100
SUBFOLDER = "cifar-100-binary"
RECORDS = {"train.bin": 50_000, "test.bin": 10_000}
_RECORD_BYTES = 2 + 3 * 32 * 32  # one of 20 coarse labels, one of 100 fine ones, then the three planes

# Mean and standard deviation of the training images' channels, as fractions of 255.
CHANNEL_MEAN = (0.5071, 0.4865, 0.4409)
CHANNEL_STD = (0.2673, 0.2564, 0.2762)

REMOTE = RemoteFile(
    "cifar-100-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    168_513_733,
    md5="03b5dce01913d631647c71ecec9e9cb8",  # checksum from the publisher, not verified here
)


def load_cifar100(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """CIFAR-100 from `data_dir/cifar-100-binary`, else `data_dir`, else the cache, filled by a download."""
    folder = find_complete([data_dir / SUBFOLDER, data_dir], tuple(RECORDS)) if data_dir else None
    if folder is None:
        taken, files = partial(unpack, records=RECORDS), tuple(RECORDS)
        folder = fetched_folder("cifar100", REMOTE, (SUBFOLDER, files), taken, data_dir, progress)
    return read_cifar100(folder, RECORDS)


def read_cifar100(folder: Path, records: dict[str, int]) -> Dataset:
    """A data set of the two binary files in one folder, with exactly so many images in each, by their fine labels."""
    train, test = (
        read_records(folder / name, count, label_bytes=2, num_classes=NUM_CLASSES) for name, count in records.items()
    )
    return Dataset(
        name="cifar100",
        inputs=train[:, 2:].reshape(-1, *IMAGE_SHAPE),
        targets=train[:, 1].astype(np.int64),
        num_classes=NUM_CLASSES,
        test_inputs=test[:, 2:].reshape(-1, *IMAGE_SHAPE),
        test_targets=test[:, 1].astype(np.int64),
        sample_bits=SAMPLE_BITS,
        mean=CHANNEL_MEAN,
        std=CHANNEL_STD,
    )


def unpack(archive: Path, folder: Path, records: dict[str, int]) -> None:
    """The two files of the publisher's archive into `folder`."""
    wanted = {f"{SUBFOLDER}/{name}": folder / name for name in records}
    lengths = {f"{SUBFOLDER}/{name}": count * _RECORD_BYTES for name, count in records.items()}
    unpack_tar(archive, wanted, file_bytes=lengths)


CIFAR100 = DatasetSpec(
    name="cifar100",
    num_classes=NUM_CLASSES,
    input_shape=IMAGE_SHAPE,
    num_train=RECORDS["train.bin"],
    num_test=RECORDS["test.bin"],
    sample_bits=SAMPLE_BITS,
    load=load_cifar100,
    about="CIFAR-100: 32 x 32 coloured pictures of a hundred things, 50,000 to train on.",
)
