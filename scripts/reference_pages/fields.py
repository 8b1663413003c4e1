"""What a configuration's model says of its keys: default, what is allowed, unit, meaning."""

from typing import Any, Literal, get_args, get_origin

from hpfl.config.fields import ChoiceSpec, said_of
from reference_pages.markdown import code, toml

_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_WORDS = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text", list: "list", dict: "table"}


def row(name: str, field: Any) -> list[str]:
    """Key, default, what it may be, unit and meaning."""
    default = field.get_default(call_default_factory=True)
    return [code(name), toml(default), allowed(field), said_of(field, "unit"), str(field.description)]


def allowed(field: Any) -> str:
    """What a key may be: its bounds, its choices, or its kind."""
    literal = [value for value in _choices(field.annotation) if isinstance(value, str)]
    bounds = [
        f"{sign} {getattr(entry, name):g}"
        for entry in field.metadata
        for name, sign in _SIGNS.items()
        if getattr(entry, name, None) is not None
    ]
    kinds = list(dict.fromkeys(_kinds(field.annotation)))
    words = [*kinds, *map(toml, literal)]
    return " or ".join(words) + (f", {', '.join(bounds)}" if bounds else "")


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for one in get_args(annotation) for value in _choices(one))


def _kinds(annotation: Any) -> list[str]:
    origin = get_origin(annotation)
    if origin is Literal or annotation is Any:
        return []
    if ChoiceSpec in _leaves(annotation):
        return ["[distribution](#distributions)"]
    if origin is None or origin in (list, dict):
        return [_WORDS.get(origin or annotation, "text")]
    return [word for one in get_args(annotation) for word in _kinds(one) if not isinstance(one, str)]


def _leaves(annotation: Any) -> set[Any]:
    inside = get_args(annotation)
    return {annotation} if not inside else set().union(*(_leaves(one) for one in inside if not isinstance(one, str)))
