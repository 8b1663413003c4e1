"""How a file is replaced at once: readers see the old one or the new one, never half of either."""

import os
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

PARTIAL_SUFFIX = ".partial"
_AT_ONCE = 8


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path in the same folder to write to; move it over `path` when done, or drop it when that fails."""
    partial = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
    try:
        yield partial
        sync_file(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of `path` at once."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Replace the content of `path` by UTF-8 text at once, line ends as given."""
    write_bytes(path, content.encode("utf-8"))


def remove_partials(folder: Path) -> None:
    """Remove what a killed process left half-written in `folder`."""
    for leftover in folder.glob(f".*{PARTIAL_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Wait until the content of `path` has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Collection[Path]) -> None:
    """Wait until several files and folders have reached the disk; at once, so that they share the disk's wait."""
    if paths:
        with ThreadPoolExecutor(min(len(paths), _AT_ONCE), thread_name_prefix="sync") as pool:
            list(pool.map(sync_file, paths))


def sync_folder(folder: Path) -> None:
    """Wait until the names in `folder` have reached the disk, so that a rename outlives a power cut."""
    sync_file(folder)
