"""Where the rows lie that very many UEs keep: in memory where they fit, else in files; and how checkpoints hold them.

A checkpoint has the slots of a version's rows and their sums, and the rows stay in their file. Rows in memory that take
much are written to a file as well, and only those that changed since the last checkpoint.
"""

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpfl.arrays import IntArray
from hpfl.row_files import KINDS, FileRows, RowFile, RowFileError, RowSlots
from hpfl.row_sums import row_sums

WHOLE_BYTES = 1 << 24
"""Rows of fewer bytes are written whole into a checkpoint."""
SUFFIX = ".rows"
_AT_ONCE = 1 << 26  # bytes that are written together

Noted = Mapping[str, Any]
"""What a checkpoint holds of rows: their file, and arrays `slots` [N] and `sums` of those in use, in their order."""


@dataclass(frozen=True)
class _Saved:
    """How rows in memory were last written: slots [N], and the sums of the rows."""

    slots: RowSlots
    sums: IntArray


class RowFolder:
    """The files of rows of one run; without a folder they lie in a scratch folder, which goes when this does."""

    def __init__(self, folder: Path | None = None, *, whole_bytes: int = WHOLE_BYTES) -> None:
        self._folder, self.whole_bytes = folder, whole_bytes
        self._files: dict[str, RowFile] = {}
        self._saved: dict[str, _Saved] = {}

    @property
    def folder(self) -> Path:
        """Where files lie; a scratch folder is made when it is asked for."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hpfl-rows-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def begin(self, name: str, first: torch.Tensor, count: int) -> FileRows:
        """The rows on disk of `count` UEs that all begin with `first` [S]."""
        return FileRows.of_beginners(self._file(name, len(first), first.dtype), first, count)

    def check_room(self, bytes_wanted: float) -> None:
        """Refuse a disk that has no room for so many bytes, beside what these files have of them already."""
        place = self.folder
        while not place.exists():
            place = place.parent
        there = sum(path.stat().st_size for path in self.folder.glob(f"*{SUFFIX}"))
        free = shutil.disk_usage(place).free + there
        if free < bytes_wanted:
            raise RowFileError(
                f"what UEs keep between rounds takes up to {bytes_wanted / 1e9:.3g} GB in {self.folder}, whose disk "
                f"has {free / 1e9:.3g} GB for it; make room, choose another --out, or raise learning.memory_gb to keep "
                "it in memory"
            )

    def noted(self, number: int, kept: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Noted]]:
        """For the checkpoint of a round: what it holds itself of what is kept, and notes of rows, now on the disk."""
        own = {name: rows for name, rows in kept.items() if not self._is_large(rows)}
        notes: dict[str, Noted] = {}
        for name, rows in kept.items():
            if name in own:
                continue
            file, slots = (rows.file, rows.slots) if isinstance(rows, FileRows) else self._written(name, rows)
            file.pin(number, slots[slots >= 0])
            used = np.unique(slots[slots >= 0])
            about = {"file": file.path.stem, "numbers": file.numbers, "dtype": KINDS[file.dtype]}
            notes[name] = {**about, "slots": slots, "sums": file.sums[used]}
        for file in self._files.values():
            file.sync()
        return own, notes

    def keep(self, numbers: set[int]) -> None:
        """There are checkpoints of these rounds alone."""
        for file in self._files.values():
            file.keep(numbers)

    def clear(self) -> None:
        """Begin anew, without what is there."""
        for path in self.folder.glob(f"*{SUFFIX}") if self._folder is not None else ():
            path.unlink()
        for file in self._files.values():
            file.forget()
        self._saved = {}

    def restored(self, number: int, notes: Mapping[str, Noted], start: Mapping[str, Any]) -> dict[str, Any]:
        """The rows that the checkpoint of a round notes, each where those of a run's `start` lie."""
        return {name: self._restored(number, name, note, start) for name, note in notes.items()}

    def placed(self, kept: Mapping[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
        """What a checkpoint holds itself, where rows of the start lie on disk put there."""
        return {
            name: own.replaced(np.arange(len(rows)), rows)
            if isinstance(own := start.get(name), FileRows) and isinstance(rows, torch.Tensor)
            else rows
            for name, rows in kept.items()
        }

    def _restored(self, number: int, name: str, note: Noted, start: Mapping[str, Any]) -> Any:
        first = start.get(name.removesuffix("_before"))
        file = self._file(note["file"], note["numbers"], getattr(torch, note["dtype"]))
        slots, used = note["slots"], np.unique(note["slots"][note["slots"] >= 0])
        file.adopt(used, note["sums"])
        file.pin(number, used)
        if isinstance(first, FileRows):
            return FileRows(file, slots, first.first)
        self._saved[name] = _Saved(slots, file.sums[slots])
        return file.read(slots)

    def _is_large(self, rows: Any) -> bool:
        if isinstance(rows, FileRows):
            return True
        return isinstance(rows, torch.Tensor) and rows.ndim == 2 and rows.nbytes >= max(self.whole_bytes, 1)

    def _written(self, name: str, rows: torch.Tensor) -> tuple[RowFile, RowSlots]:
        """Rows in memory, of which those go to the file that are not there already; equal rows go there once."""
        file = self._file(name, rows.shape[1], rows.dtype)
        sums, last = row_sums(rows).cpu().numpy(), self._saved.get(name)
        slots = np.full(len(rows), -1, dtype=np.int32) if last is None else last.slots.copy()
        changed = np.arange(len(rows)) if last is None else np.flatnonzero(sums != last.sums)
        _, firsts, kinds = np.unique(sums[changed], return_index=True, return_inverse=True)
        wrote, most = np.zeros(len(firsts), dtype=np.int32), max(_AT_ONCE // file.row_bytes, 1)
        waiting = FileRows(file, slots, rows[:1])  # its slots must stay until the checkpoint is written
        for at in range(0, len(firsts), most):
            part = torch.from_numpy(changed[firsts[at : at + most]])
            wrote[at : at + most] = file.write(rows[part.to(rows.device)])
            done = kinds < at + most
            waiting.slots[changed[done]] = wrote[kinds[done]]
        self._saved[name] = _Saved(waiting.slots, sums)
        return file, waiting.slots

    def _file(self, name: str, numbers: int, dtype: torch.dtype) -> RowFile:
        if name not in self._files:
            self._files[name] = RowFile(self.folder / f"{name}{SUFFIX}", numbers, dtype)
        return self._files[name]
