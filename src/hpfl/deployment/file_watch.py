"""Files that may change while a node runs: noticed once they have rested, so that nobody reads half of one."""

from collections.abc import Iterable
from pathlib import Path

FileStamp = tuple[int, int, int] | None
"""Inode, size and time of the last change (ns); None where there is no file."""

LOOK_S = 0.5
"""Seconds between two looks at the files of a node."""


class WatchedFiles:
    """A few files that belong together, looked at now and then."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = [Path(path) for path in paths]
        self._known = self._seen = self._stamps()

    def have_changed(self) -> bool:
        """Whether they differ from those known so far, and not from those of the last look; then these are known."""
        now = self._stamps()
        rested, self._seen = now == self._seen, now
        if not rested or now == self._known:
            return False
        self._known = now
        return True

    def _stamps(self) -> list[FileStamp]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> FileStamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
