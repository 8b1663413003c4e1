"""The columns of `rounds.jsonl`: sums over all rounds are kept, everything else is read where a chart asks for it."""

import math
import re
from array import array
from collections import OrderedDict
from functools import reduce
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import Any

from hpfl.watch.growing import GrowingLines
from hpfl.watch.shown import number, parsed

MOST_POINTS = 2_000
_KEPT_ROWS = 8_192
_SUMMED = {"cumulative_energy_j": ("energy_j",), "cumulative_bits": ("uplink_bits", "downlink_bits")}
_VALUES = {
    name: re.compile(rb'"%s": ([-+0-9.eE]+|null|NaN|-?Infinity)' % name.encode())
    for parts in _SUMMED.values()
    for name in parts
}

_LAST_OWN = "noise_scale"
"""The last column of a record that is there whatever is measured."""

RoundRow = dict[str, Any]


class RoundColumns:
    """A run's rounds: how many there are, what they sum up to, and any of them as columns of at most a few thousand."""

    def __init__(self, path: Path) -> None:
        self._lines = GrowingLines(path)
        self._sums = {name: array("d") for name in _SUMMED}
        self._rows: OrderedDict[int, RoundRow] = OrderedDict()

    def __len__(self) -> int:
        return len(self._lines)

    def refresh(self) -> bool:
        """Read what is new; True where the file has begun anew."""
        begun_anew = self._lines.refresh(self._add)
        if begun_anew and not len(self._lines):
            self._forget()
        return begun_anew

    def _forget(self) -> None:
        self._sums = {name: array("d") for name in _SUMMED}
        self._rows.clear()

    def _add(self, piece: bytes, count: int) -> None:
        if len(self._lines) == count:  # the first lines of a file, which may be another than before
            self._forget()
        for name, parts in _SUMMED.items():
            sums = self._sums[name]
            each = reduce(_added, (_values(piece, part, count) for part in parts))
            each[0] += sums[-1] if sums else 0.0
            sums.extend(accumulate(each))

    def line(self, number_: int) -> bytes:
        """The line of a round, counted from 1."""
        return self._lines.line(number_ - 1)

    def record(self, number_: int) -> dict[str, Any] | None:
        """The record of a round; None where there is none that can be read."""
        return parsed(self.line(number_)) if 1 <= number_ <= len(self) else None

    def row(self, number_: int) -> RoundRow:
        """The numbers of a round, lists left out, and the sums up to it."""
        if number_ in self._rows:
            self._rows.move_to_end(number_)
            return self._rows[number_]
        record = self.record(number_) or {}
        row: RoundRow = {
            key: number(value) for key, value in record.items() if not isinstance(value, list | dict | str)
        }
        row["round"] = number_
        row |= {name: number(sums[number_ - 1]) for name, sums in self._sums.items()}
        self._rows[number_] = row
        if len(self._rows) > _KEPT_ROWS:
            self._rows.popitem(last=False)
        return row

    def evaluated(self) -> list[str]:
        """The columns that evaluations fill: those at the end of a record."""
        names = list(self.record(len(self)) or {})
        return names[names.index(_LAST_OWN) + 1 :] if _LAST_OWN in names else []

    def columns(self, rounds: list[int]) -> dict[str, list[float | None]]:
        """One list for every column that any of these rounds has."""
        rows = [self.row(number_) for number_ in rounds]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}


def _values(piece: bytes, name: str, count: int) -> list[float]:
    """The numbers called `name` in so many lines, 0 for what is absent or no number."""
    found = _VALUES[name].findall(piece)
    if len(found) != count:  # an earlier version's lines, or damaged ones
        rows = (parsed(line) or {} for line in piece.split(b"\n")[:count])
        return [number(row.get(name)) or 0.0 for row in rows]
    try:
        values = list(map(float, found))
    except ValueError:  # there is null among them, or worse
        values = [_float(value) for value in found]
    return values if math.isfinite(sum(values)) else [value if math.isfinite(value) else 0.0 for value in values]


def _float(value: bytes) -> float:
    try:
        return float(value)
    except ValueError:
        return 0.0


def _added(some: list[float], others: list[float]) -> list[float]:
    return list(map(add, some, others))


def stride_of(count: int, every: int, most: int = MOST_POINTS) -> int:
    """The least step with which at most `most` of `count` rounds are shown, evaluated ones (each `every`th) among them.

    It divides `every`, or `every` divides it, so that a step does not walk past evaluations.
    """
    step, every = max(math.ceil(count / most), 1), max(every, 1)
    while every % step and step % every:
        step += 1
    return step


def chosen_rounds(first: int, last: int, step: int) -> list[int]:
    """Every `step`th round between two, and both ends."""
    inside = range(first + (-first) % step, last + 1, step)
    return sorted({first, *inside, last}) if first <= last else []
