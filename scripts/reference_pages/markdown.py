"""Markdown that is written by programs: tables whose cells are safe, values as TOML writes them, marked blocks."""

import re
from collections.abc import Callable, Iterable, Sequence

import tomlkit

BAR = "\\|"
MADE = "<!-- Made by `python scripts/make_reference.py`; change what it is made from, not this page. -->\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a row for each sequence of cells."""
    lines = [_row(heads), "|" + "---|" * len(heads), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Inline code."""
    return f"`{text}`"


def toml(value: object) -> str:
    """A value as a configuration writes it; what TOML has no word for is said in words."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return toml(list(value))
    if isinstance(value, float) and value >= 1e6:
        return code(f"{value:g}".replace("e+0", "e"))
    return code(tomlkit.item(value).as_string() if value != {} else "{}")


def with_blocks(text: str, made: Callable[[str], str]) -> str:
    """A page with what is between `<!-- made: NAME -->` and `<!-- end -->` made anew."""

    def anew(found: re.Match[str]) -> str:
        return f"{found[1]}\n{made(found[2])}{found[3]}"

    return re.sub(r"(<!-- made: ([^>]+?) -->)\n.*?(<!-- end -->)", anew, text, flags=re.DOTALL)


def _row(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell.replace('|', BAR)} " if cell else " " for cell in cells) + "|"
