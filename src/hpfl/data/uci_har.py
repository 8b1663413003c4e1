"""UCI HAR: what 30 people with a telephone at their waist were doing, 10,299 windows of 561 figures each.

Anguita, Ghio, Oneto, Parra, Reyes-Ortiz: *A Public Domain Dataset for Human Activity Recognition Using Smartphones*,
ESANN 2013. Its publisher gives no checksum, so that it is read from a folder and never fetched.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.data.archives import unpack_zip
from hpfl.data.dataset import Dataset, DatasetError, DatasetSpec, DownloadProgress, Inputs
from hpfl.data.download import cache_dir
from hpfl.data.federated import FederatedData
from hpfl.data.folders import find_complete

NAME, POOLED = "uci-har", "uci-har-pooled"
SUBFOLDER, ARCHIVE = "UCI HAR Dataset", "UCI HAR Dataset.zip"
NUM_CLASSES, NUM_FIGURES, NUM_SUBJECTS = 6, 561, 30
NUM_WINDOWS = {"train": 7_352, "test": 2_947}
SAMPLE_BITS = NUM_FIGURES * 32
FILES = tuple(f"{part}/{kind}_{part}.txt" for part in NUM_WINDOWS for kind in ("X", "y", "subject"))
HELD_OUT = 0.2
_MOST_BYTES = 100_000_000  # of a file in the archive; the largest has 66 MB


@dataclass(frozen=True)
class Windows:
    """One part of the publisher's split: figures [n, 561], activities from 0 and people from 1, [n]."""

    figures: Inputs
    activities: IntArray
    subjects: IntArray


def load_by_subject(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """Every person is a UE with its own windows, of both parts; a fifth of each person's is held out for testing."""
    train, test = _both(data_dir)
    figures = np.concatenate([train.figures, test.figures])
    activities = np.concatenate([train.activities, test.activities])
    subjects = np.concatenate([train.subjects, test.subjects])
    own = [np.flatnonzero(subjects == person) for person in np.unique(subjects)]
    return FederatedData(
        train=[(figures[rows], activities[rows]) for rows in own],
        num_classes=NUM_CLASSES,
        sample_bits=SAMPLE_BITS,
        held_out=HELD_OUT,
        name=NAME,
    ).dataset


def load_pooled(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """The publisher's two parts, of different people, to be dealt by a partitioner."""
    train, test = _both(data_dir)
    return Dataset(
        name=POOLED,
        inputs=train.figures,
        targets=train.activities,
        num_classes=NUM_CLASSES,
        test_inputs=test.figures,
        test_targets=test.activities,
        sample_bits=SAMPLE_BITS,
    )


def read_windows(folder: Path, part: str, count: int) -> Windows:
    """One part of the publisher's text files, with exactly so many windows."""
    figures = _table(folder / f"{part}/X_{part}.txt", (count, NUM_FIGURES))
    activities = _numbers(folder / f"{part}/y_{part}.txt", count, NUM_CLASSES)
    subjects = _numbers(folder / f"{part}/subject_{part}.txt", count, NUM_SUBJECTS)
    return Windows(figures.astype(np.float32), activities - 1, subjects)


def _both(data_dir: Path | None) -> tuple[Windows, Windows]:
    folder = _folder(data_dir)
    train, test = (read_windows(folder, part, count) for part, count in NUM_WINDOWS.items())
    return train, test


def _folder(data_dir: Path | None) -> Path:
    """Where the text files are: in a folder, in the cache, or in the publisher's zip, which is unpacked there."""
    kept = cache_dir() / SUBFOLDER
    places = ([data_dir / SUBFOLDER, data_dir] if data_dir is not None else []) + [kept]
    found = find_complete(places, FILES)
    if found is not None:
        return found
    archive = None if data_dir is None else data_dir / ARCHIVE
    if archive is None or not archive.is_file():
        where = f" in {data_dir}" if data_dir is not None else ""
        raise DatasetError(
            f"{NAME} is not there{where}; get {ARCHIVE} from https://archive.ics.uci.edu/dataset/240, put it into "
            "FOLDER, and name FOLDER with --data-dir FOLDER or HPFL_DATA_DIR=FOLDER"
        )
    for part in NUM_WINDOWS:
        (kept / part).mkdir(parents=True, exist_ok=True)
    unpack_zip(archive, {f"{SUBFOLDER}/{name}": kept / name for name in FILES}, most_bytes=_MOST_BYTES)
    return kept


def _numbers(path: Path, count: int, most: int) -> IntArray:
    values = _table(path, (count, 1))[:, 0]
    wrong = np.flatnonzero((values != np.rint(values)) | (values < 1) | (values > most))
    if wrong.size:
        raise DatasetError(f"{path} line {wrong[0] + 1} is {values[wrong[0]]:g}; wanted a number from 1 to {most}")
    return values.astype(np.int64)


def _table(path: Path, shape: tuple[int, int]) -> FloatArray:
    """Numbers between blanks, so many rows of so many; the file may be no longer than such rows are."""
    try:
        with path.open("rb") as file:
            words = file.read(_MOST_BYTES + 1)
        if len(words) > _MOST_BYTES:
            raise DatasetError(f"{path} has more than {_MOST_BYTES:,} bytes")
        values = np.array(words.split(), dtype=np.float64)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if values.size != shape[0] * shape[1] or not np.isfinite(values).all():
        raise DatasetError(f"{path} has {values.size:,} numbers; wanted {shape[0]:,} rows of {shape[1]}, all finite")
    return values.reshape(shape)


def _spec(name: str, load: object, about: str, *, owned: bool) -> DatasetSpec:
    whole = sum(NUM_WINDOWS.values())
    return DatasetSpec(
        name=name,
        num_classes=NUM_CLASSES,
        input_shape=(NUM_FIGURES,),
        num_train=whole if owned else NUM_WINDOWS["train"],
        num_test=whole if owned else NUM_WINDOWS["test"],
        sample_bits=SAMPLE_BITS,
        load=load,  # type: ignore[arg-type]
        about=about,
        owned=owned,
    )


UCI_HAR = (
    _spec(NAME, load_by_subject, "UCI HAR: what 30 people with a telephone do; each of them is a UE.", owned=True),
    _spec(POOLED, load_pooled, "UCI HAR, 7,352 windows to train on, to be dealt by a partitioner.", owned=False),
)
