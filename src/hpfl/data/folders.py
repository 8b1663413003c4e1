"""Where the files of a data set may lie in a folder the user names, and what to tell who has none."""

from collections.abc import Sequence
from pathlib import Path

from hpfl.data.dataset import DatasetError


def find_complete(folders: Sequence[Path], names: Sequence[str], *, suffixes: Sequence[str] = ("",)) -> Path | None:
    """The first folder that holds every name with one of the suffixes; a folder with some of them is an error."""
    for folder in folders:
        missing = [name for name in names if find_file(folder, name, suffixes) is None]
        if not missing:
            return folder
        if len(missing) < len(names):
            raise DatasetError(f"{folder} holds only part of the data: {', '.join(missing)} missing")
    return None


def find_file(folder: Path, name: str, suffixes: Sequence[str] = ("",)) -> Path | None:
    """The file `name` plus one of the suffixes, tried in order."""
    candidates = (folder / f"{name}{suffix}" for suffix in suffixes)
    return next((path for path in candidates if path.is_file()), None)


def what_to_do(dataset: str, *, files: Sequence[str], subfolder: str, source: str) -> str:
    """How to provide a data set by hand, for the end of an error message."""
    return (
        f"to provide {dataset} yourself, get {source}, put {', '.join(files)} into FOLDER/{subfolder} (or FOLDER), "
        f"and name FOLDER with --data-dir FOLDER or HPFL_DATA_DIR=FOLDER; "
        f"data.dataset = 'mnist-mini' needs no download"
    )
