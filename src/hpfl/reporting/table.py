"""A table of a million rows as CSV: written in pieces, so that no column exists as Python objects all at once."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpfl.reporting import atomic
from hpfl.reporting.store import csv_text

ROWS_PER_PIECE = 1 << 16


def write_table(path: Path, columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Write equally long columns at once; NaN becomes an empty cell, lists are set apart by spaces."""
    length = max((len(values) for values in columns.values()), default=0)
    with atomic.replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        for begin in range(0, max(length, 1), ROWS_PER_PIECE):
            text = csv_text({name: values[begin : begin + ROWS_PER_PIECE] for name, values in columns.items()})
            file.write(text if begin == 0 else text.partition("\n")[2])
