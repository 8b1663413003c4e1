"""A study's tables as files: CSV for spreadsheets, JSON for programs."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting.targets import Row


def write_rows(folder: Path, name: str, table: Sequence[Row]) -> None:
    """`name.csv` and `name.json` in `folder`, with the columns of all rows; empty and null where there is nothing.

    CSV has ten digits, JSON all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for row in table for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: _short(value) for column, value in row.items()} for row in table)
    atomic.write_text(folder / f"{name}.csv", text.getvalue())
    atomic.write_text(folder / f"{name}.json", json.dumps(list(table), indent=1, allow_nan=False) + "\n")


def _short(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value
