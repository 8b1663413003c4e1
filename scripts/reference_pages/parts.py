"""Tables of the parts that are shipped, kind by kind, with their options."""

from collections.abc import Iterator
from typing import Any

from hpfl.config.kinds import described, kind_called
from hpfl.registry import OURS
from reference_pages.markdown import code, table, toml


def parts_table(kind: str) -> str:
    """Every shipped part of a kind: name, meaning and, where any has some, options with default, unit and meaning."""
    parts = [part for part in described(kind_called(kind)) if part["origin"] == OURS]
    if not any(part["options"] for part in parts):
        return table(("name", "what it is"), [row[:2] for row in _rows(parts)])
    return table(("name", "what it is", "options"), list(_rows(parts)))


def _rows(parts: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for part in parts:
        yield code(part["name"]), part["meaning"], "; ".join(map(_option, part["options"]))


def _option(option: dict[str, Any]) -> str:
    unit = f" {option['unit']}" if option["unit"] else ""
    value = "needed" if option["needed"] else f"{toml(option['default'])}{unit}"
    return f"{code(option['name'])} ({value}): {option['meaning']}"
