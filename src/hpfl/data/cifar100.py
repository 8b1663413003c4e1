"""CIFAR-100 in its publisher's binary version: 50,000 + 10,000 colour images of 32 x 32, of a hundred things."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpfl.data.archives import in_one_step, unpack_tar
from hpfl.data.cifar10 import IMAGE_SHAPE, SAMPLE_BITS
from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, DownloadProgress
from hpfl.data.download import DownloadError, RemoteFile, cache_dir, fetch
from hpfl.data.folders import find_complete, what_to_do

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
    return read_cifar100(folder or _download(data_dir, progress), RECORDS)


def read_cifar100(folder: Path, records: dict[str, int]) -> Dataset:
    """A data set of the two binary files in one folder, with exactly so many images in each, by their fine labels."""
    train, test = (_read_records(folder / name, count) for name, count in records.items())
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


def _read_records(path: Path, count: int) -> NDArray[np.uint8]:
    try:
        size_bytes, expected = path.stat().st_size, count * _RECORD_BYTES
        if size_bytes != expected:
            raise DatasetError(f"{path} has {size_bytes:,} bytes; {count:,} images take {expected:,}")
        table = np.fromfile(path, dtype=np.uint8, count=expected).reshape(count, _RECORD_BYTES)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if table[:, 1].max(initial=0) >= NUM_CLASSES:
        raise DatasetError(f"{path}: label {table[:, 1].max()} found; labels run from 0 to {NUM_CLASSES - 1}")
    return table


def _download(data_dir: Path | None, progress: DownloadProgress | None) -> Path:
    folder = cache_dir() / SUBFOLDER
    if _is_whole(folder):
        return folder
    try:
        archive = fetch(REMOTE, cache_dir(), progress=progress)
    except DownloadError as error:
        looked = f"cifar100 is not in {data_dir}; " if data_dir else ""
        advice = what_to_do("cifar100", files=tuple(RECORDS), subfolder=SUBFOLDER, source=REMOTE.urls[0])
        raise DownloadError(f"{looked}{error}; {advice}") from error
    in_one_step(folder, lambda fresh: unpack(archive, fresh, RECORDS), whole=_is_whole)
    archive.unlink(missing_ok=True)
    return folder


def _is_whole(folder: Path) -> bool:
    return find_complete([folder], tuple(RECORDS)) is not None


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
