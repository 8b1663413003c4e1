"""A file of lines that grows while it is read: where each line begins, and whether what was read is still there."""

import os
import re
from array import array
from collections.abc import Callable
from pathlib import Path

_PIECE_BYTES = 1 << 24
_TAIL_BYTES = 256
_END = re.compile(rb"\n")
LONGEST_LINE = 1 << 24
"""Bytes; a line that is longer is not read."""


class GrowingLines:
    """The whole lines of a file: `ends` are the offsets just behind each of them; a last line without end waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends = array("q")
        self._inode, self._tail = -1, b""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def size(self) -> int:
        """Bytes of all whole lines."""
        return self.ends[-1] if self.ends else 0

    def refresh(self, told: Callable[[bytes, int], None]) -> bool:
        """Look for new lines; `told` gets them in pieces, each with how many lines it has.

        True where the file is no longer what it was: then all of it is told anew.
        """
        try:
            with self.path.open("rb") as file:
                begun_anew = not self._goes_on(file.fileno())
                if begun_anew:
                    self.ends, self._tail = array("q"), b""
                    self._inode = os.fstat(file.fileno()).st_ino
                self._read(file.fileno(), told)
        except FileNotFoundError:
            begun_anew = self._inode >= 0
            self.ends, self._tail, self._inode = array("q"), b"", -1
        return begun_anew

    def line(self, number: int) -> bytes:
        """Line `number`, counted from 0; empty where it is no longer there or too long."""
        start = self.ends[number - 1] if number else 0
        return read_span(self.path, start, self.ends[number])

    def _goes_on(self, descriptor: int) -> bool:
        """Whether the file is the one that was read, still begins with that, and ends its last line as before."""
        status = os.fstat(descriptor)
        if status.st_ino != self._inode or status.st_size < self.size:
            return False
        return os.pread(descriptor, len(self._tail), self.size - len(self._tail)) == self._tail

    def _read(self, descriptor: int, told: Callable[[bytes, int], None]) -> None:
        start = self.size
        while piece := os.pread(descriptor, _PIECE_BYTES, start):
            cut = piece.rfind(b"\n") + 1
            if not cut:
                break  # half a line, or one that is longer than anybody writes
            piece = piece[:cut]
            before = len(self.ends)
            self.ends.extend([start + found.end() for found in _END.finditer(piece)])
            told(piece, len(self.ends) - before)
            self._tail = (self._tail + piece[-_TAIL_BYTES:])[-_TAIL_BYTES:]
            start += cut


def read_span(path: Path, start: int, end: int) -> bytes:
    """The bytes of a file between two offsets; empty where they are too many or no longer there."""
    if not 0 < end - start <= LONGEST_LINE:
        return b""
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), end - start, start)
    except FileNotFoundError:
        return b""
