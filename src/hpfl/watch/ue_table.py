"""The table of UEs that a run leaves at its end, as columns, or as histograms where there are too many."""

import csv
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from hpfl.watch.shown import number, text

MOST_ROWS = 5_000
_BINS = 40
_AT_ONCE = 20_000
_KEYS = ("ue", "edge", "samples")
_NO_METRICS = frozenset({"ue", "edge", "labels"})


def ues_of(path: Path) -> dict[str, Any] | None:
    """All rows as columns; of more than `MOST_ROWS` histograms of every metric; None where the run has no table yet."""
    try:
        status = path.stat()
        return _read(path, (status.st_ino, status.st_size, status.st_mtime_ns))
    except (OSError, UnicodeDecodeError, csv.Error, IndexError):
        return None


@lru_cache(maxsize=16)
def _read(path: Path, _stamp: tuple[int, int, int]) -> dict[str, Any]:
    """The same, read once for each state of the file: a million rows take seconds."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = [text(name) for name in next(rows, [])]
        first = list(islice(rows, MOST_ROWS + 1))
        if len(first) <= MOST_ROWS:
            columns = {name: [_value(name, row[at]) for row in first] for at, name in enumerate(header)}
            return {"count": len(first), "columns": columns, "histograms": None}
        return _summed(header, chain(first, rows))


def _summed(header: list[str], rows: Iterator[list[str]]) -> dict[str, Any]:
    """How many UEs there are, and how every metric is distributed over those that have it."""
    values: dict[str, list[float]] = {name: [] for name in header if name not in _NO_METRICS}
    count = 0
    while part := list(islice(rows, _AT_ONCE)):
        count += len(part)
        for name, cells in zip(header, zip(*part, strict=False), strict=False):
            if name in values:
                values[name] += _floats(cells)
    return {
        "count": count,
        "columns": None,
        "histograms": {name: _histogram(found) for name, found in values.items() if found},
    }


def _floats(cells: Iterable[str]) -> list[float]:
    """The finite numbers among cells."""
    try:
        found = [float(cell) for cell in cells if cell]
    except ValueError:  # a damaged table
        found = [value for cell in cells if (value := _value("", cell)) is not None and not isinstance(value, str)]
    return found if math.isfinite(sum(found)) else [value for value in found if math.isfinite(value)]


def one_ue(path: Path, ue: int) -> dict[str, Any] | None:
    """The row of one UE; they are in the order of their numbers, and all are passed over up to it."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = [text(name) for name in next(rows, [])]
            wanted = str(ue)
            found = next((row for row in rows if row and row[0] == wanted), None)
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    return None if found is None else {n: _value(n, v) for n, v in zip(header, found, strict=False)}


def _value(name: str, said: str) -> float | str | None:
    if name == "labels":
        return text(said)
    try:
        return int(said) if name in _KEYS else number(float(said))
    except ValueError:
        return None


def _histogram(values: list[float]) -> dict[str, Any]:
    """Bins, and the tenth and ninetieth percentile, interpolated as NumPy does."""
    values.sort()
    low, high = values[0], values[-1]
    width = (high - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / width), _BINS - 1)] += 1
    tenths = {"p10": _quantile(values, 0.1), "p90": _quantile(values, 0.9)}
    return {"edges": [low + width * one for one in range(_BINS + 1)], "counts": counts, **tenths}


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = ordered[min(below + 1, len(ordered) - 1)]
    return ordered[below] + (place - below) * (above - ordered[below])
