"""The table of UEs that a run leaves at its end, as columns, or as histograms where there are too many."""

import csv
import io
from itertools import islice
from pathlib import Path
from typing import Any

from hpfl.watch.shown import number, text

MOST_ROWS = 5_000
_BINS = 40
_SAMPLED = 200_000
_KEYS = ("ue", "edge", "samples")


def ues_of(path: Path) -> dict[str, Any] | None:
    """All rows as columns; of more than `MOST_ROWS` histograms of every metric; None where the run has no table yet."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = [text(name) for name in next(rows, [])]
            first = list(islice(rows, MOST_ROWS + 1))
            if len(first) <= MOST_ROWS:
                columns = {name: [_value(name, row[at]) for row in first] for at, name in enumerate(header)}
                return {"count": len(first), "sampled": False, "columns": columns, "histograms": None}
            values: dict[str, list[float]] = {name: [] for name in header if name not in {"ue", "edge", "labels"}}
            count = 0
            for row in (row for part in (first, rows) for row in part):
                count += 1
                if count <= _SAMPLED:
                    _note(values, header, row)
    except (OSError, UnicodeDecodeError, csv.Error, IndexError):
        return None
    bins = {name: _histogram(found) for name, found in values.items() if found}
    return {"count": count, "sampled": True, "columns": None, "histograms": bins}


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


def _note(values: dict[str, list[float]], header: list[str], row: list[str]) -> None:
    for at, name in enumerate(header):
        if name in values and isinstance(found := _value(name, row[at]), int | float):
            values[name].append(found)


def _value(name: str, said: str) -> float | str | None:
    if name == "labels":
        return text(said)
    try:
        return int(said) if name in _KEYS else number(float(said))
    except ValueError:
        return None


def _histogram(values: list[float]) -> dict[str, Any]:
    low, high = min(values), max(values)
    width = (high - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - low) / width), _BINS - 1)] += 1
    return {"edges": [low + width * one for one in range(_BINS + 1)], "counts": counts}


def as_csv(columns: dict[str, list[Any]]) -> bytes:
    """Columns as the text of a table; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()
