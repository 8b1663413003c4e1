"""All kinds of interchangeable parts: where each is named in a configuration, and what there is of it to choose."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpfl.config.errors import ConfigError
from hpfl.config.named import rows_of, slots_of
from hpfl.config.whole import Config
from hpfl.learning import OBJECTIVES
from hpfl.network.channel import FADINGS
from hpfl.registry import Registry


@dataclass(frozen=True)
class Kind:
    """One kind: its parts by name, and the keys and options that name them."""

    registry: Registry[Any]
    places: tuple[str, ...]

    @property
    def name(self) -> str:
        """`planner`."""
        return self.registry.kind


def kinds() -> tuple[Kind, ...]:
    """Every kind, in the order of the sections, and last those that options of other parts name."""
    places: dict[Registry[Any], list[str]] = {}
    for section, info in Config.model_fields.items():
        model: Any = info.annotation
        named_here: dict[str, Any] = {**slots_of(model), **rows_of(model)}
        for name, slot in named_here.items():
            places.setdefault(slot.registry, []).append(f"{section}.{name}")
    named = [Kind(registry, tuple(keys)) for registry, keys in places.items()]
    within = [
        Kind(FADINGS, ("network.channel_options.fading",)),
        Kind(OBJECTIVES, ("learning.method_options.gradient",)),
    ]
    return (*named, *within)


def kind_called(name: str) -> Kind:
    """The kind of that name, one or many of it, with or without dashes."""
    wanted, known = _plain(name), kinds()
    for kind in known:
        if wanted in (_plain(kind.name), _plain(kind.registry.plural)):
            return kind
    near = difflib.get_close_matches(wanted, [_plain(kind.name) for kind in known], n=1)
    hint = f"; did you mean {near[0]}?" if near else ";"
    raise ConfigError(f"no kind of part is called {name!r}{hint} there are {', '.join(kind.name for kind in known)}")


def described(kind: Kind) -> Iterator[dict[str, Any]]:
    """Every part of a kind as plain data: name, meaning, where it comes from, and its options."""
    for name in kind.registry:
        try:
            chosen = kind.registry.part(name)
            options = [] if chosen.options is None else list(_options(chosen.options))
            yield {"name": name, "meaning": chosen.meaning, "origin": chosen.origin, "options": options}
        except Exception as error:  # noqa: BLE001  another package's fault must not hide everything else
            said = f"cannot be used: {type(error).__name__}: {error}"
            yield {"name": name, "meaning": said, "origin": "elsewhere", "options": []}


def _options(model: Any) -> Iterator[Mapping[str, Any]]:
    for name, field in model.model_fields.items():
        needed = field.is_required()
        told = field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else {}
        yield {
            "name": name,
            "default": None if needed else field.get_default(call_default_factory=True),
            "needed": needed,
            "unit": told.get("unit", ""),
            "meaning": field.description or "",
        }


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", " ").replace("_", " ")
