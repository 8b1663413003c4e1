"""Tables of results at a terminal, and what is said of runs that failed."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from hpfl.sweeps.sweep_tables import ResultTable
from hpfl.sweeps.table_texts import plain_cell


def failures(failed: dict[str, str]) -> str:
    """A sentence for each kind of failure, with the run it came first in."""
    by_error: dict[str, list[str]] = {}
    for name, error in failed.items():
        by_error.setdefault(error, []).append(name)
    more = {error: f" and {len(names) - 1} more" if len(names) > 1 else "" for error, names in by_error.items()}
    return "\n".join(f"{names[0]}{more[error]} failed: {error}" for error, names in by_error.items())


DISPENSABLE = (
    "global accuracy (%)",
    "downlink (Mbit)",
    "best (%)",
    "uplink (Mbit)",
    "rounds",
    "worst tenth (%)",
    "seeds",
    "energy / baseline",
    "energy (J)",
)
"""Columns that are left out, in this order, where the terminal is too narrow; files have them all."""


def shown(table: ResultTable, *, width: int) -> Table:
    """A table for a terminal of some width."""
    texts = [[plain_cell(cell) for cell in row] for row in table.rows]
    need = {name: max(len(name), *(len(row[at]) for row in texts)) + 2 for at, name in enumerate(table.headings)}
    for name in DISPENSABLE:
        if name in need and sum(need.values()) > width:
            del need[name]
    grid = Table(title=table.title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    kept = [at for at, name in enumerate(table.headings) if name in need]
    for at in kept:
        grid.add_column(table.headings[at], justify="left" if at < table.naming else "right")
    for row in texts:
        grid.add_row(*(row[at] for at in kept))
    return grid
