"""Tables as CSV; one of a million rows is written in pieces, so that no column is Python objects all at once."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl import atomic
from hpfl.reporting.store import plain

ROWS_PER_PIECE = 1 << 16


def write_table(path: Path, columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Write equally long columns at once; NaN becomes an empty cell, lists are set apart by spaces."""
    length = max((len(values) for values in columns.values()), default=0)
    with atomic.replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        for begin in range(0, max(length, 1), ROWS_PER_PIECE):
            text = csv_text({name: values[begin : begin + ROWS_PER_PIECE] for name, values in columns.items()})
            file.write(text if begin == 0 else text.partition("\n")[2])


def csv_text(columns: Mapping[str, Sequence[Any] | np.ndarray]) -> str:
    """Columns of equal length as CSV with a header; every number reads back as exactly itself."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must be equally long, and are {lengths}")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*([_cell(value) for value in values] for values in columns.values()), strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return "" if value is None else value
