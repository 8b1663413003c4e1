"""A file of a run's history that pictures are drawn from: a checkpoint vouches for it, and no number depends on it."""

from itertools import count
from pathlib import Path

from hpfl.histories import AppendedFile, size_of
from hpfl.training.watching import RunResult, Watcher


class DrawnFile(Watcher):
    """Appends rounds to one file; made on the first round, so that a run that fails leaves nothing."""

    way_on = "if it is removed, its later rounds need not be run again"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = AppendedFile(path)

    def go_on(self, told: str) -> None:
        """Drop what was written after a mark."""
        self._file.cut(size_of(told))

    def set_aside(self) -> Path:
        """Put a damaged file away under a name that nobody has, so that another can begin; that name."""
        names = (self.path.with_name(f"{self.path.name}.damaged-{number}") for number in count(1))
        away = next(name for name in names if not name.exists())
        self.close()
        self.path.rename(away)
        return away

    def ended(self, result: RunResult) -> None:
        """No more rounds will come."""
        self.close()

    def unsynced(self) -> list[Path]:
        """The file, where it has grown."""
        return self._file.unsynced()

    def mark(self) -> str:
        """The mark of all lines."""
        return self._file.mark()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
