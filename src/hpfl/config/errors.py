"""Refusals that name the key, the value and what was wanted."""

import difflib
from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from hpfl.config.named import OPTIONS
from hpfl.config.old_keys import WHOLE
from hpfl.config.whole import Config
from hpfl.options import sentence, shown
from hpfl.tracebacks import short_traceback


class ConfigError(ValueError):
    """A configuration that cannot be used; `str()` is one line per fault."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it."""
        return short_traceback(self)


def from_validation(error: ValidationError, section: str = "") -> ConfigError:
    """Pydantic's findings in our words, one line per key; those of one `section` are told with its name."""
    lines: dict[str, str] = {}
    for fault in error.errors():
        loc = (section, *fault["loc"]) if section else fault["loc"]
        place = _place(loc)
        if place not in lines or fault["type"] != "extra_forbidden":
            lines[place] = _line(place, loc, fault)
    return ConfigError("\n".join(lines.values()))


def _place(loc: Sequence[int | str]) -> str:
    """`planning.rho` from pydantic's location, without the names of union members."""
    return ".".join(str(part) for part in loc[:2])


def _line(place: str, loc: Sequence[int | str], fault: Any) -> str:
    if fault["type"] in ("extra_forbidden", "no_such_attribute") and len(loc) <= 2:
        return unknown(place, is_section=isinstance(fault["input"], dict))
    if not place or fault["type"] == WHOLE:
        return _sentence(fault)
    inside = "".join(f".{part}" for part in loc[3:] if isinstance(part, str))
    return f"{place}{inside} is {shown(fault['input'])}; {_sentence(fault)}"


def _sentence(fault: Any) -> str:
    if fault["type"] == "model_type":
        return f"it should be a section: [{fault['loc'][0]}] and under it its keys"
    return sentence(fault)


def unknown(place: str, *, is_section: bool = False) -> str:
    """`planning.roh is not a key; did you mean planning.rho?`, or what the section has where no key is near.

    A name without a section is one of a table (`[plannning]`) or a key that stands before all of them (`rho = 0.5`).
    """
    kind = "key" if "." in place else "section"
    row = place.removesuffix(OPTIONS)
    if row != place and row in known_keys():
        return f"{place} is not a key; options of {row} stand in its list: {row} = [{{ name = ..., ... }}]"
    found = [name for name in near(place) if not is_section or "." not in name]
    if found:
        return f"{place} is not a {kind}; did you mean {' or '.join(found)}?"
    section = place.split(".", maxsplit=1)[0]
    inside = [name.split(".")[1] for name in known_keys() if name.startswith(section + ".")]
    there = f"section {section} has" if inside else "the sections are"
    return f"{place} is not a {kind}; {there} {', '.join(inside or Config.model_fields)}"


def near(place: str) -> list[str]:
    """Known names that `place` may have been meant as: the same key of other sections, else the nearest in spelling."""
    key = place.rsplit(".", maxsplit=1)[-1]
    same = [name for name in known_keys() if name.endswith(f".{key}")]
    if same or place in Config.model_fields:
        return same
    dotted = [name for name in known_keys() if "." in name or "." not in place]
    alike = difflib.get_close_matches(place, dotted, n=1, cutoff=0.6)
    if alike or "." in place:
        return alike
    keys = [name.rsplit(".", maxsplit=1)[-1] for name in known_keys() if "." in name]
    spelt = difflib.get_close_matches(place, keys, n=1, cutoff=0.6)
    return [name for name in known_keys() if spelt and name.endswith(f".{spelt[0]}")]


@cache
def known_keys() -> Sequence[str]:
    """All `section.key` names."""
    names = []
    for section, info in Config.model_fields.items():
        model: Any = info.annotation
        names += [section, *(f"{section}.{name}" for name in model.model_fields)]
    return names
