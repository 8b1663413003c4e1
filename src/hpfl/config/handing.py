"""Parts that are handed over in Python by the names of their keys: `planner=mine, planner_options={"rest": 2}`."""

import difflib
from collections.abc import Mapping
from typing import Any

from hpfl.config.errors import ConfigError
from hpfl.config.named import OPTIONS, rows_of, slots_of
from hpfl.config.whole import Config

ELSEWHERE = ("watchers",)
"""Keys that name parts, and are an argument of `hpfl.run` in another sense."""


def part_keys(parts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What was handed over, by section and key; a name that no key has is refused with those there are."""
    places = _places()
    strange = [name for name in parts if name not in places]
    if strange:
        near = difflib.get_close_matches(strange[0], places, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(places)}"
        raise ConfigError(f"{strange[0]} is no part that can be handed over; {hint}")
    found: dict[str, dict[str, Any]] = {}
    for name, value in parts.items():
        found.setdefault(places[name], {})[name] = value
    return found


def _places() -> dict[str, str]:
    """The section of every key that names parts, and of the options beside it."""
    places: dict[str, str] = {}
    for section, info in Config.model_fields.items():
        model: Any = info.annotation
        slots = slots_of(model)
        keys = [*slots, *rows_of(model), *(name + OPTIONS for name in slots)]
        places |= {name: section for name in keys if name not in ELSEWHERE}
    return places
