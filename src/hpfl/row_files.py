"""Rows of numbers in a file, of which old versions stay readable: what very many UEs keep, where memory is too small.

A file has a header of one page, JSON, then rows of float32 or float64 as they lie in memory. A version of the rows
(`FileRows`) says in which slot of the file each UE's row lies. A row that changes goes to a slot that no version and no
checkpoint needs, so a version never changes, and a killed run finds the rows of its checkpoint where they were.
"""

import json
import os
import weakref
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.arrays import IntArray
from hpfl.row_sums import row_sums

FORMAT = "hpfl rows 1"
HEADER_BYTES = 4096
KINDS = {torch.float32: "float32", torch.float64: "float64"}
_AT_ONCE = 1 << 26  # bytes that are looked at together

RowSlots = NDArray[np.int32]
"""Where rows lie, [N]; -1: what a UE begins with, which is not in the file."""


class RowFileError(Exception):
    """Rows that cannot be written, or are not what was written."""


class RowFile:
    """The only writer of one file of rows; it is made when the first row is written."""

    def __init__(self, path: Path, numbers: int, dtype: torch.dtype) -> None:
        self.path, self.numbers, self.dtype = path, numbers, dtype
        self.size = 0
        self.sums = np.zeros(0, dtype=np.int64)
        self.pinned: dict[int, RowSlots] = {}
        self._versions: weakref.WeakSet[FileRows] = weakref.WeakSet()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.numbers * torch.finfo(self.dtype).bits // 8

    def read(self, slots: RowSlots) -> torch.Tensor:
        """The rows in some slots, in memory."""
        if not slots.size:
            return torch.zeros(0, self.numbers, dtype=self.dtype)
        return torch.from_numpy(self._mapped("r")[slots])

    def write(self, rows: torch.Tensor) -> RowSlots:
        """The slots that rows [n, S] were put into, which nobody needed."""
        if not len(rows):
            return np.zeros(0, dtype=np.int32)
        rows = rows.detach().to("cpu", self.dtype)
        slots = self._free(len(rows))
        try:
            self._make_room()
            self._mapped("r+")[slots] = rows.numpy()
        except OSError as error:
            raise RowFileError(
                f"{self.path} cannot grow to {self._bytes / 1e9:.3g} GB ({error.strerror}); make room on its disk and "
                "go on with --resume"
            ) from error
        self.sums[slots] = row_sums(rows).numpy()
        return slots

    def sync(self) -> None:
        """Wait until all rows have reached the disk."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def pin(self, number: int, slots: RowSlots) -> None:
        """A checkpoint of round `number` needs the rows in these slots."""
        self.pinned[number] = np.unique(np.concatenate([self.pinned.get(number, slots[:0]), slots]))

    def keep(self, numbers: set[int]) -> None:
        """There are checkpoints of these rounds alone."""
        self.pinned = {number: slots for number, slots in self.pinned.items() if number in numbers}

    def adopt(self, slots: RowSlots, sums: IntArray) -> None:
        """Go on with the file that is there, whose `slots` [m] have rows with these sums; refused where they have not.

        RowSlots are in order, each once.
        """
        self._check_header()
        there = (self.path.stat().st_size - HEADER_BYTES) // self.row_bytes
        if slots.size and not 0 <= int(slots[0]) <= int(slots[-1]) < there:
            raise RowFileError(f"{self.path.name} has {there} rows; wanted {int(slots[-1]) + 1}")
        most = max(_AT_ONCE // self.row_bytes, 1)
        for first in range(0, len(slots), most):
            part = slots[first : first + most]
            wrong = row_sums(self.read(part)).numpy() != sums[first : first + most]
            if wrong.any():
                raise RowFileError(f"{self.path.name}: row {int(part[wrong][0])} is not what was written")
        self._grow(there)
        self.sums[slots] = sums

    def began(self, version: "FileRows") -> None:
        """There is a version whose rows must stay."""
        self._versions.add(version)

    def forget(self) -> None:
        """The file is gone; those who begin write another."""
        self.size, self.sums, self.pinned = 0, np.zeros(0, dtype=np.int64), {}

    @property
    def _bytes(self) -> int:
        return HEADER_BYTES + self.size * self.row_bytes

    def _free(self, count: int) -> RowSlots:
        """As many slots that no version and no checkpoint needs, the first ones; the file's are counted on."""
        taken = np.zeros(self.size, dtype=np.bool_)
        for slots in [version.slots for version in self._versions] + list(self.pinned.values()):
            taken[slots[slots >= 0]] = True
        free = np.flatnonzero(~taken)[:count]
        more = np.arange(self.size, self.size + count - len(free))
        self._grow(self.size + len(more))
        return np.concatenate([free, more]).astype(np.int32)

    def _grow(self, size: int) -> None:
        self.sums = np.concatenate([self.sums, np.zeros(size - self.size, dtype=np.int64)])
        self.size = size

    def _make_room(self) -> None:
        """Set disk aside for all rows, which a map can write to then: it cannot report a disk that is full."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(json.dumps(self._header).encode("ascii").ljust(HEADER_BYTES - 1) + b"\n")
        with self.path.open("r+b") as file:
            before = os.fstat(file.fileno()).st_size
            if before < self._bytes:
                os.posix_fallocate(file.fileno(), before, self._bytes - before)

    @property
    def _header(self) -> dict[str, Any]:
        return {"format": FORMAT, "numbers": self.numbers, "dtype": KINDS[self.dtype]}

    def _check_header(self) -> None:
        try:
            with self.path.open("rb") as file:
                header = json.loads(file.read(HEADER_BYTES))
        except (OSError, ValueError) as error:
            raise RowFileError(f"{self.path.name} cannot be read ({error})") from error
        if header != self._header:
            raise RowFileError(f"{self.path.name} says {header}; wanted {self._header}")

    def _mapped(self, mode: Literal["r", "r+"]) -> NDArray[Any]:
        """All rows of the file, mapped into memory for as long as they are looked at."""
        count = (self.path.stat().st_size - HEADER_BYTES) // self.row_bytes
        shape, kind = (count, self.numbers), KINDS[self.dtype]
        return np.asarray(np.memmap(self.path, dtype=kind, mode=mode, offset=HEADER_BYTES, shape=shape))


class FileRows:
    """One version of the rows of N UEs, `first` [S] being that of all who have none in the file."""

    def __init__(self, file: RowFile, slots: RowSlots, first: torch.Tensor) -> None:
        self.file, self.slots, self.first = file, slots, first
        file.began(self)

    @staticmethod
    def of_beginners(file: RowFile, first: torch.Tensor, count: int) -> "FileRows":
        """The rows of so many UEs that begin."""
        return FileRows(file, np.full(count, -1, dtype=np.int32), first.detach().to("cpu", file.dtype))

    @property
    def shape(self) -> torch.Size:
        """Rows, and numbers in each."""
        return torch.Size((len(self.slots), self.file.numbers))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return len(self.slots) * self.file.row_bytes

    def at(self, ues: IntArray) -> torch.Tensor:
        """The rows of some UEs, in memory."""
        slots = self.slots[ues]
        written = slots >= 0
        if written.all():
            return self.file.read(slots)
        found = self.first.expand(len(slots), -1).contiguous()
        found[torch.from_numpy(written)] = self.file.read(slots[written])
        return found

    def replaced(self, ues: IntArray, rows: torch.Tensor) -> "FileRows":
        """The version with other rows of some UEs."""
        return self._with_slots(ues, self.file.write(rows))

    def with_rows_of(self, ues: IntArray, other: "FileRows") -> "FileRows":
        """The version in which some UEs have the rows of another."""
        return self._with_slots(ues, other.slots[ues])

    def _with_slots(self, ues: IntArray, slots: RowSlots) -> "FileRows":
        changed = self.slots.copy()
        changed[ues] = slots
        return FileRows(self.file, changed, self.first)
