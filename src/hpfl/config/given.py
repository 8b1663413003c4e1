"""Parts handed over in Python instead of named: what a saved configuration and a fingerprint say of them."""

from collections.abc import Mapping
from typing import Any

from hpfl.config.code_identity import identity
from hpfl.registry import GIVEN, Registry, UnknownNameError, imported

_PLAIN = (str, int, float, list, tuple, Mapping, type(None))
"""What a file can hold, and so no part in itself."""


def part(registry: Registry[Any], value: Any) -> Any:
    """A registered name, "module:callable", or a callable: by its importable name where it has one, else itself."""
    if isinstance(value, str):
        _check_name(registry, value)
        return value
    if not callable(value):
        raise ValueError(f"wanted a name, module:callable or a callable, not {type(value).__name__}")
    return _path(value) or value


def named(registry: Registry[Any], value: Any) -> Any:
    """The name of a part that is handed over, under which the registry has it from now on; what is plain stays."""
    if isinstance(value, _PLAIN):
        return value
    known = registry.name_of(value) or _path(value)
    if known:
        return known
    maker, name = value if callable(value) else _maker(registry, value), _given_name(value)
    registry.give(name, maker)
    return name


def name_of(value: Any) -> Any:
    """The name of a part: its own, or for one without `given:` and what tells it from others."""
    return _given_name(value) if callable(value) else value


def _given_name(value: Any) -> str:
    return f"{GIVEN}{getattr(value, '__name__', type(value).__name__)}-{identity(value)}"


def _maker(registry: Registry[Any], thing: Any) -> Any:
    """What parts of this kind make may be handed over as it is."""
    lacks = registry.lacking(thing)
    if lacks or not registry.made:
        wanted = f"that lacks {lacks}" if lacks else f"called with ({', '.join(registry.called or ())})"
        raise ValueError(f"wanted a {registry.kind}: a name or a callable, not {type(thing).__name__}, {wanted}")

    def made(*_given: Any) -> Any:
        return thing

    return made


def _check_name(registry: Registry[Any], name: str) -> None:
    if name.startswith(GIVEN):
        return
    registry.part(name)  # its error names the known ones


def _path(value: Any) -> str:
    """`module:callable` if that finds this very object in another process: not what a script or a function made."""
    path = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
    if path.startswith(("__main__:", ":")) or path.endswith(":") or "<" in path:
        return ""
    try:
        return path if imported(path) is value else ""
    except UnknownNameError:
        return ""
