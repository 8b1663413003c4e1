"""MNIST in its publisher's IDX format, packed or unpacked: 60,000 + 10,000 grey images of 28 x 28."""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, DownloadProgress
from hpfl.data.download import DownloadError, RemoteFile, cache_dir, fetch
from hpfl.data.folders import find_complete, find_file, what_to_do
from hpfl.units import BITS_PER_BYTE

NUM_CLASSES = 10
SIDE = 28
SAMPLE_BITS = SIDE * SIDE * BITS_PER_BYTE
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SUFFIXES = (".gz", "")
_UNSIGNED_BYTE = 0x08  # type code in the third byte of an IDX file; the fourth is the number of dimensions
_MIRRORS = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")


def _remote(number: int, size_bytes: int, sha256: str) -> RemoteFile:
    name = FILES[number] + ".gz"
    return RemoteFile(name, tuple(mirror + name for mirror in _MIRRORS), size_bytes, sha256)


REMOTE = (
    _remote(0, 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _remote(1, 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _remote(2, 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    _remote(3, 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)


def load_mnist(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """MNIST from `data_dir/mnist`, torchvision's `MNIST/raw` or `data_dir` itself, else the cache, or a download."""
    folder = None
    if data_dir is not None:
        places = [data_dir / "mnist", data_dir / "MNIST" / "raw", data_dir / "raw", data_dir]
        folder = find_complete(places, FILES, suffixes=SUFFIXES)
    folder = folder or fetched_idx("mnist", REMOTE, data_dir, progress)
    return read_mnist(folder, name="mnist", num_train=60_000, num_test=10_000)


def read_mnist(folder: Path, *, name: str, num_train: int, num_test: int) -> Dataset:
    """A data set of MNIST's four files in one folder, with exactly so many training and test images."""
    counts = (num_train, num_train, num_test, num_test)
    shapes = [(count, SIDE, SIDE) if "images" in file else (count,) for file, count in zip(FILES, counts, strict=True)]
    arrays = [_read(folder, file, shape) for file, shape in zip(FILES, shapes, strict=True)]
    return Dataset(
        name=name,
        inputs=arrays[0][:, None],
        targets=arrays[1].astype(np.int64),
        num_classes=NUM_CLASSES,
        test_inputs=arrays[2][:, None],
        test_targets=arrays[3].astype(np.int64),
        sample_bits=SAMPLE_BITS,
    )


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The bytes of an IDX file that must have exactly this shape; no more than they take is ever unpacked."""
    header_bytes = 4 + 4 * len(shape)
    expected = header_bytes + prod(shape)
    content = _read_at_most(path, expected + 1)
    wanted = (_UNSIGNED_BYTE << 8 | len(shape), *shape)
    whole_words = min(len(content), header_bytes) // 4
    header = tuple(np.frombuffer(content, dtype=">u4", count=whole_words).tolist())
    if header != wanted:
        raise DatasetError(f"{path}: the header (magic number, dimensions) is {header}; wanted {wanted}")
    if len(content) != expected:
        more = "more" if len(content) > expected else f"{len(content):,}"
        raise DatasetError(f"{path}: {expected:,} bytes wanted after unpacking, {more} found")
    return np.frombuffer(content, dtype=np.uint8, offset=header_bytes).reshape(shape).copy()


def _read(folder: Path, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    path = find_file(folder, name, SUFFIXES)
    if path is None:
        raise DatasetError(f"{folder} has neither {name}.gz nor {name}")
    return read_idx(path, shape)


def _read_at_most(path: Path, limit_bytes: int) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(limit_bytes)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def fetched_idx(
    name: str, remotes: tuple[RemoteFile, ...], data_dir: Path | None, progress: DownloadProgress | None
) -> Path:
    """The folder of the cache with a data set's four packed files, which are downloaded where they are missing."""
    folder = cache_dir() / name
    try:
        for remote in remotes:
            fetch(remote, folder, progress=progress)
    except DownloadError as error:
        looked = f"{name} is not in {data_dir}; " if data_dir else ""
        files, site = [remote.name for remote in remotes], remotes[0].urls[0].removesuffix(remotes[0].name)
        advice = what_to_do(name, files=files, subfolder=name, source=f"the four files of {site}")
        raise DownloadError(f"{looked}{error}; {advice}") from error
    return folder


MNIST = DatasetSpec(
    name="mnist",
    num_classes=NUM_CLASSES,
    input_shape=(1, SIDE, SIDE),
    num_train=60_000,
    num_test=10_000,
    sample_bits=SAMPLE_BITS,
    load=load_mnist,
    about="MNIST: 28 x 28 grey digits, 60,000 to train on.",
)
