"""A run's files as tables to download: lines of JSON become lines of CSV, one at a time."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpfl.watch.growing import LONGEST_LINE
from hpfl.watch.shown import parsed

_RISKY = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula."""


def csv_lines(path: Path) -> Iterator[str] | None:
    """The table of a file, line by line; None where it is not there."""
    if not path.is_file():
        return None
    return _copied(path) if path.suffix == ".csv" else _converted(path)


def _copied(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        while piece := file.read(1 << 16):
            yield piece


def _converted(path: Path) -> Iterator[str]:
    """Columns are those of the first line; lists are set apart by spaces, as in `ues.csv`."""
    names: list[str] = []
    with path.open("rb") as file:
        for line in iter(lambda: file.readline(LONGEST_LINE), b""):
            row = parsed(line) if line.endswith(b"\n") else None
            if row is None:
                continue
            if not names:
                names = list(row)
                yield _line(names)
            yield _line(row.get(name) for name in names)


def _line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(_RISKY):
        return f"'{value}"
    return value
