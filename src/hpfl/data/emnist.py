"""EMNIST in its publisher's IDX format: digits and letters as MNIST's, in splits of 10, 26, 47 and 62 classes."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hpfl.data.archives import in_one_step, unpack_zip
from hpfl.data.dataset import Dataset, DatasetSpec, DownloadProgress
from hpfl.data.download import DownloadError, RemoteFile, cache_dir, fetch
from hpfl.data.folders import find_complete, find_file, what_to_do
from hpfl.data.mnist import SAMPLE_BITS, SIDE, SUFFIXES, read_idx

ARCHIVE, SUBFOLDER = "gzip.zip", "emnist"
_MOST_BYTES = 600_000_000  # of a file in the archive: the largest of all has 700,000 images


@dataclass(frozen=True)
class EmnistSplit:
    """One of the publisher's splits: how many images, of how many classes, of which the first is called `first`."""

    name: str
    num_train: int
    num_test: int
    num_classes: int
    first: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """Its four files, unpacked."""
        return tuple(f"emnist-{self.name}-{part}-{kind}" for part in ("train", "test") for kind in (_IMAGES, _LABELS))


_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
SPLITS = (
    EmnistSplit("balanced", 112_800, 18_800, 47),
    EmnistSplit("letters", 124_800, 20_800, 26, first=1),
    EmnistSplit("digits", 240_000, 40_000, 10),
    EmnistSplit("byclass", 697_932, 116_323, 62),
)

REMOTE = RemoteFile(
    ARCHIVE,
    (
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
    ),
    561_753_746,
    md5="58c8d27c78d21e728a6bc7b3cc06412e",  # checksum as torchvision has it of the publisher, not verified here
)


def load_emnist(data_dir: Path | None, progress: DownloadProgress | None, *, split: EmnistSplit) -> Dataset:
    """A split from `data_dir/emnist` (files or `gzip.zip`), torchvision's `EMNIST/raw`, else the cache, a download."""
    places = [] if data_dir is None else [data_dir / SUBFOLDER, data_dir / "EMNIST" / "raw", data_dir]
    folder = find_complete(places, split.files, suffixes=SUFFIXES)
    if folder is None:
        archive = next((path for place in places if (path := find_file(place, ARCHIVE))), None)
        folder = _from_archive(archive) if archive else _download(data_dir, progress)
    return read_emnist(folder, split)


def read_emnist(folder: Path, split: EmnistSplit) -> Dataset:
    """A split of four files in one folder; its images lie on their side, and are set upright."""
    arrays = []
    for name, count in zip(split.files, (split.num_train,) * 2 + (split.num_test,) * 2, strict=True):
        path = find_file(folder, name, SUFFIXES)
        assert path is not None
        arrays.append(read_idx(path, (count, SIDE, SIDE) if _IMAGES in name else (count,)))
    images = [np.ascontiguousarray(arrays[place].transpose(0, 2, 1))[:, None] for place in (0, 2)]
    labels = [arrays[place].astype(np.int64) - split.first for place in (1, 3)]
    return Dataset(
        name=f"emnist-{split.name}",
        inputs=images[0],
        targets=labels[0],
        num_classes=split.num_classes,
        test_inputs=images[1],
        test_targets=labels[1],
        sample_bits=SAMPLE_BITS,
    )


def _from_archive(archive: Path, splits: tuple[EmnistSplit, ...] = SPLITS) -> Path:
    """The folder of the cache with the files of all splits, packed as they are in the archive."""
    folder = cache_dir() / SUBFOLDER
    if not _is_whole(folder, splits):
        folder.parent.mkdir(parents=True, exist_ok=True)

        def fill(fresh: Path) -> None:
            names = [f"{name}.gz" for split in splits for name in split.files]
            unpack_zip(archive, {f"gzip/{name}": fresh / name for name in names}, most_bytes=_MOST_BYTES)

        in_one_step(folder, fill, whole=partial(_is_whole, splits=splits))
    return folder


def _is_whole(folder: Path, splits: tuple[EmnistSplit, ...] = SPLITS) -> bool:
    names = [name for split in splits for name in split.files]
    return all(find_file(folder, name, SUFFIXES) is not None for name in names)


def _download(data_dir: Path | None, progress: DownloadProgress | None) -> Path:
    folder = cache_dir() / SUBFOLDER
    if _is_whole(folder):
        return folder
    try:
        archive = fetch(REMOTE, cache_dir(), progress=progress)
    except DownloadError as error:
        looked = f"emnist is not in {data_dir}; " if data_dir else ""
        advice = what_to_do("emnist", files=(ARCHIVE,), subfolder=SUBFOLDER, source=REMOTE.urls[0])
        raise DownloadError(f"{looked}{error}; {advice}") from error
    _from_archive(archive)
    archive.unlink(missing_ok=True)
    return folder


EMNIST = tuple(
    DatasetSpec(
        name=f"emnist-{split.name}",
        num_classes=split.num_classes,
        input_shape=(1, SIDE, SIDE),
        num_train=split.num_train,
        num_test=split.num_test,
        sample_bits=SAMPLE_BITS,
        load=partial(load_emnist, split=split),
        about=f"EMNIST, {split.name}: {split.num_train:,} grey characters of {split.num_classes} classes to train on.",
    )
    for split in SPLITS
)
