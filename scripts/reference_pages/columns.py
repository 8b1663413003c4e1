"""Tables of the columns and keys of result files, from docs/reference/columns.toml, and an index of them all."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from reference_pages.markdown import MADE, code, table

SOURCE = Path(__file__).parents[2] / "docs" / "reference" / "columns.toml"
_RUN = ("rounds.jsonl", "timeline.jsonl", "ues.csv", "summary.json")


@cache
def files() -> dict[str, Any]:
    """Every file with its rows: names, unit and meaning."""
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def columns_table(file: str) -> str:
    """The table of one file."""
    told = files()[file]
    rows = [(", ".join(map(code, row["names"])), row["unit"], row["meaning"]) for row in told["rows"]]
    return table((told["head"], "unit", "meaning"), rows)


def columns_page() -> str:
    """`docs/reference/columns.md`: the columns of a run's files by name, each with the files that have it."""
    rows = [(name, file, row["unit"]) for file in _RUN for row in files()[file]["rows"] for name in row["names"]]
    names = sorted({name for name, _, _ in rows})
    return f"{_INTRO}{table(('name', 'in', 'unit'), [_index_row(name, rows) for name in names])}"


def _index_row(name: str, rows: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    here = [(file, unit) for one, file, unit in rows if one == name]
    links = ", ".join(f"[{file}](../results.md#{file.replace('.', '')})" for file, _ in here)
    return code(name), links, ", ".join(dict.fromkeys(unit for _, unit in here if unit))


_INTRO = f"""\
# Columns by name

{MADE}
Every column and key of what a run leaves, in alphabetical order, with its unit and the files that have it. What each
means is in [results.md](../results.md); [other files](files.md) are those of audits, theory and studies.

"""
