"""Files whose lines begin with the number of their round, found by halving the file: no index is kept of them."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_NUMBER = re.compile(rb'\{"round": (\d{1,15})[,}]')
_LOOK_BYTES = 1 << 16
_LINE_BYTES = 1 << 24


class RoundLines:
    """The lines of a file in the order of their rounds; each is asked of the disk when it is wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of_round(self, number: int, *, most_bytes: int = 1 << 24) -> list[bytes]:
        """All lines of one round; none where it has none."""
        return list(self.between(number, number, most_bytes=most_bytes))

    def between(self, first: int, last: int, *, most_bytes: int = 1 << 26) -> Iterator[bytes]:
        """Whole lines of the rounds `first` to `last`, up to a number of bytes."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(_first_offset(file.fileno(), first))
            left = most_bytes
            for line in file:
                number = round_of(line)
                left -= len(line)
                if not line.endswith(b"\n") or left < 0 or (number is not None and number > last):
                    return
                if number is not None and number >= first:
                    yield line

    def some(self, rounds: Sequence[int]) -> Iterator[bytes]:
        """The first whole line of each of some rounds, which come in order; a round without any is passed over."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            at = 0
            for number in rounds:
                at = _first_offset(file.fileno(), number, at)
                file.seek(at)
                line = file.readline(_LINE_BYTES)
                if line.endswith(b"\n") and round_of(line) == number:
                    yield line

    def first_line(self) -> bytes:
        """The first line of the file, where it is whole."""
        try:
            with self.path.open("rb") as file:
                line = file.readline(_LINE_BYTES)
        except FileNotFoundError:
            return b""
        return line if line.endswith(b"\n") else b""


def round_of(line: bytes) -> int | None:
    """The round that a line says it is of."""
    found = _NUMBER.match(line)
    return int(found[1]) if found else None


def _first_offset(descriptor: int, number: int, low: int = 0) -> int:
    """Where the first line begins, not before `low`, whose round is at least `number`: a few dozen reads at most."""
    end = os.fstat(descriptor).st_size
    high, reach = end, _LOOK_BYTES
    while low + reach < end:  # near `low` it is found sooner than by halving all of the file
        found = _next_line(descriptor, low + reach, end)[1]
        if found is None or found >= number:
            high = low + reach
            break
        low, reach = low + reach, 2 * reach
    while low < high:
        middle = (low + high) // 2
        start, found = _next_line(descriptor, middle, high)
        if found is None or found >= number:
            high = middle
        else:
            low = max(start, middle + 1)
    return _next_line(descriptor, low, end)[0] if low else 0


def _next_line(descriptor: int, offset: int, end: int) -> tuple[int, int | None]:
    """Where the first line begins at or after an offset, and its round; at the end of the file no round."""
    if offset > 0:
        at = _find_end(descriptor, offset - 1, end)
        if at < 0:
            return end, None
        offset = at + 1
    while offset < end:
        found = round_of(os.pread(descriptor, 32, offset))
        if found is not None:
            return offset, found
        at = _find_end(descriptor, offset, end)  # a damaged line is passed over
        if at < 0:
            break
        offset = at + 1
    return end, None


def _find_end(descriptor: int, offset: int, end: int) -> int:
    while offset < end:
        piece = os.pread(descriptor, _LOOK_BYTES, offset)
        at = piece.find(b"\n")
        if at >= 0:
            return offset + at
        if not piece:
            break
        offset += len(piece)
    return -1
