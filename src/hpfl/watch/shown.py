"""What may be told to a page: texts without control characters and of bounded length, numbers that JSON can hold."""

import json
import math
from collections.abc import Mapping
from typing import Any

LONGEST_TEXT = 200


class WatchError(Exception):
    """Something that cannot be watched, in one sentence."""


def text(value: object) -> str:
    """A text of somebody else as one line: no control or direction characters, at most `LONGEST_TEXT` letters."""
    raw = str(value)[: 4 * LONGEST_TEXT]
    line = "".join(letter if letter.isprintable() else "?" for letter in raw)
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 1] + "…"


def number(value: object) -> float | None:
    """A finite number, or None for whatever else was written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer that no float can hold
        return None


def whole(value: object, *, least: int = 0, most: int = 10**9) -> int:
    """A count within bounds; 0 or the least for whatever else was written."""
    return min(max(value, least), most) if isinstance(value, int) and not isinstance(value, bool) else least


def as_json(answer: Any) -> bytes:
    """The text of an answer; non-finite numbers become null."""
    try:
        told = json.dumps(answer, allow_nan=False, separators=(",", ":"))
    except ValueError:
        told = json.dumps(finite(answer), allow_nan=False, separators=(",", ":"))
    return told.encode()


def finite(value: Any) -> Any:
    """The same with None for every number that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object that a line of JSON holds, or None for anything else."""
    try:
        found = json.loads(line, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
