"""Refusals that name the key, the value and what was wanted."""

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from hpfl.config.whole import Config


class ConfigError(ValueError):
    """A configuration that cannot be used; `str()` is one line per fault."""


def from_validation(error: ValidationError) -> ConfigError:
    """Pydantic's findings in our words, one line per key."""
    lines: dict[str, str] = {}
    for fault in error.errors():
        place = _place(fault["loc"])
        if place not in lines or fault["type"] != "extra_forbidden":
            lines[place] = _line(place, fault)
    return ConfigError("\n".join(lines.values()))


def _place(loc: Sequence[int | str]) -> str:
    """`planning.rho` from pydantic's location, without the names of union members."""
    return ".".join(str(part) for part in loc[:2])


def _line(place: str, fault: Any) -> str:
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) <= 2:
        return f"{place} is not a key{suggestion(place)}"
    if not place:
        return _sentence(fault)
    inside = "".join(f".{part}" for part in fault["loc"][3:] if isinstance(part, str))
    return f"{place}{inside} is {_shown(fault['input'])}; {_sentence(fault)}"


def _sentence(fault: Any) -> str:
    text: str = fault["msg"].removeprefix("Value error, ")
    return text.replace("Input should be", "it should be").replace("a valid number", "a number")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def suggestion(place: str) -> str:
    """`; did you mean planning.rho?` where a known key is near."""
    near = difflib.get_close_matches(place, known_keys(), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    section = place.split(".", maxsplit=1)[0]
    inside = [name for name in known_keys() if name.startswith(section + ".")]
    return f"; section {section} has {', '.join(name.split('.')[1] for name in inside)}" if inside else ""


def known_keys() -> list[str]:
    """All `section.key` names."""
    names = []
    for section, info in Config.model_fields.items():
        model: Any = info.annotation
        names += [section, *(f"{section}.{name}" for name in model.model_fields)]
    return names
