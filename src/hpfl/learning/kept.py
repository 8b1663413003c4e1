"""What UEs keep between rounds: rows of numbers, one for each UE, of its method, its uplink and its codec."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.rooms import Rooms


class StoredRows(Protocol):
    """One version of the rows [N, S] of very many UEs, which lie elsewhere; it never changes."""

    @property
    def shape(self) -> torch.Size:
        """N and S."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""

    def at(self, ues: IntArray) -> Tensor:
        """The rows of some UEs, in memory."""

    def replaced(self, ues: IntArray, rows: Tensor) -> Self:
        """The version with other rows of some UEs."""

    def with_rows_of(self, ues: IntArray, other: Self) -> Self:
        """The version in which some UEs have the rows of another version."""


AnyRows = Tensor | StoredRows


def rows_at(rows: AnyRows, ues: IntArray) -> Tensor:
    """The rows of some UEs."""
    return rows[torch.from_numpy(ues).to(rows.device)] if isinstance(rows, Tensor) else rows.at(ues)


def _read(rows: AnyRows, ues: IntArray) -> Tensor:
    all_of_them = isinstance(rows, Tensor) and np.array_equal(ues, np.arange(len(rows)))
    return rows if isinstance(rows, Tensor) and all_of_them else rows_at(rows, ues)


def replaced(rows: AnyRows, ues: IntArray, new: Tensor) -> AnyRows:
    """Rows, with other ones of some UEs."""
    if not isinstance(rows, Tensor):
        return rows.replaced(ues, new)
    return rows.index_copy(0, torch.as_tensor(ues, device=rows.device), new.to(rows))


def with_rows_of(rows: AnyRows, ues: IntArray, other: AnyRows) -> AnyRows:
    """Rows, with those of another version for some UEs."""
    if isinstance(rows, Tensor) or isinstance(other, Tensor):
        return replaced(rows, ues, rows_at(other, ues))
    return rows.with_rows_of(ues, other)


@dataclass(frozen=True)
class Kept:
    """What UEs keep between rounds, a row for each; None: nothing, or that of UEs which begin.

    Rows of all UEs of a run may be `StoredRows`; those of some are in memory.
    """

    method: Tensor | None = None  # [n, S]: of the method, a private head for one
    uplink: Tensor | None = None  # [n, U]: of the uplink's steps, what was left unsent for one
    codec: Tensor | None = None  # [n, U]: the same of the codecs that they upload with

    @staticmethod
    def of(**rows: AnyRows) -> "Kept":
        """Rows by name; of stored ones, whose rows are asked for before a number is, it takes the place of tensors."""
        return Kept(**rows)  # type: ignore[arg-type]

    def rows(self, at: IntArray) -> "Kept":
        """Those of some UEs."""
        return Kept(*(None if own is None else rows_at(own, at) for own in self._all))

    def read(self, ues: IntArray) -> "Kept":
        """Those of some UEs for whoever writes to none of them: of all in order they are these very rows."""
        return Kept(*(None if own is None else _read(own, ues) for own in self._all))

    def seen(self, at: IntArray) -> "Kept":
        """Those of some UEs for whoever writes to none of them: these very rows where they lie side by side."""
        return Kept(*(None if own is None else own[_place(at, own)] for own in self._all))

    def room(self, at: IntArray, dtype: torch.dtype) -> Tensor | None:
        """Where the method's rows of some UEs are to be written, if they lie side by side."""
        place = None if self.method is None else _place(at, self.method)
        if self.method is None or self.method.dtype != dtype or not isinstance(place, slice):
            return None
        return self.method[place]

    def write(self, at: IntArray, rows: "Kept") -> None:
        """Put rows in place of those of some UEs."""
        for own, new in zip(self._all, rows._all, strict=True):
            if own is not None and new is not None:
                place = _place(at, own)
                if not isinstance(place, slice) or own[place].data_ptr() != new.data_ptr():  # else it is there
                    own[place] = new.to(own)

    def unwritten(self, rooms: Rooms | None = None) -> "Kept":
        """Room for as many rows, of those that serve again where they are given."""
        make = torch.empty_like if rooms is None else rooms.like
        return Kept(*(None if own is None else make(own) for own in self._all))

    @property
    def _all(self) -> tuple[Tensor | None, ...]:
        return self.method, self.uplink, self.codec


def _place(at: IntArray, own: Tensor) -> slice | Tensor:
    """Rows that lie side by side are not copied."""
    if len(at) and int(at[-1]) - int(at[0]) == len(at) - 1 and bool(np.all(np.diff(at) == 1)):
        return slice(int(at[0]), int(at[-1]) + 1)
    return torch.from_numpy(at).to(own.device)
