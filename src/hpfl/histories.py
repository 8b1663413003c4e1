"""Files that are only ever appended to, and how a checkpoint vouches for them: so many bytes, with this digest."""

import hashlib
import os
from pathlib import Path
from typing import Protocol

from hpfl import atomic

_PIECE_BYTES = 1 << 20


class Mark:
    """How far a file reached at a moment, and the digest of all of it; it moves on as the file grows."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.blake2b(digest_size=16)

    @classmethod
    def of(cls, path: Path, size: int | None = None) -> "Mark":
        """That of a file, or of its first `size` bytes; a missing file is an empty one."""
        mark = cls()
        if path.exists():
            with path.open("rb") as file:
                while piece := file.read(_PIECE_BYTES if size is None else min(_PIECE_BYTES, size - mark.size)):
                    mark.add(piece)
        return mark

    def add(self, content: bytes) -> None:
        """The file has grown."""
        self.size += len(content)
        self._digest.update(content)

    def told(self) -> str:
        """As a checkpoint holds it: bytes, a space, and the digest in hexadecimal."""
        return f"{self.size} {self._digest.hexdigest()}"


def size_of(told: str) -> int:
    """The bytes that a mark vouches for."""
    return int(told.split(maxsplit=1)[0])


def holds(path: Path, told: str) -> bool:
    """Whether a file still begins with what a mark vouches for."""
    return Mark.of(path, size_of(told)).told() == told


class History(Protocol):
    """A file of a run's history that a checkpoint vouches for; without it the run goes on, and it begins anew."""

    path: Path
    way_on: str
    """What somebody can do when it is damaged."""

    def unsynced(self) -> list[Path]:
        """Files and folders that may not have reached the disk since this was asked last."""
        ...

    def mark(self) -> str:
        """The mark of it as it is now."""
        ...

    def go_on(self, told: str) -> None:
        """The run goes on from a checkpoint that has this mark."""
        ...


class AppendedFile:
    """The only writer of one file; it is opened, and what is there is read, when something is to be added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._mark: Mark | None = None
        self._is_synced, self._is_named = True, False

    def append(self, content: bytes) -> None:
        """Hand bytes to the operating system, which keeps them if we are killed."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._grown().add(content)
        self._is_synced = False
        write_all(self._descriptor, content)

    @property
    def is_ended(self) -> bool:
        """Whether the last line is not a piece of one that a killed process left."""
        if self._descriptor >= 0 or not self.path.exists():  # where it is open, the last line is ours
            return True
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return file.read() in {b"", b"\n"}

    def unsynced(self) -> list[Path]:
        """The file where it has grown since this was asked last, and at first its folder, for its name."""
        changed = [] if self._is_synced else [self.path] if self._is_named else [self.path, self.path.parent]
        self._is_synced, self._is_named = True, self._is_named or bool(changed)
        return changed

    def mark(self) -> str:
        """The mark of the whole file."""
        return self._grown().told()

    def cut(self, size: int) -> None:
        """Drop what comes after the first `size` bytes."""
        self.close()
        if self.path.exists():
            os.truncate(self.path, size)
            atomic.sync_file(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._mark, self._is_synced = -1, None, True

    def _grown(self) -> Mark:
        if self._mark is None:
            self._mark = Mark.of(self.path)
        return self._mark


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, however many pieces the system takes."""
    while content:
        content = content[os.write(descriptor, content) :]
