"""Records that have a record: what is within it is read, given and replaced by its own name too.

A problem has `links`, and `problem.ue_gain` is `problem.links.ue_gain`; so it may be made of `links=...`, of
`ue_gain=...` and its like, or of links in which some names are replaced, as `dataclasses.replace` does.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeVar

__all__ = ["flattened"]

_T = TypeVar("_T")


def flattened(part: str, kind: type) -> Callable[[type[_T]], type[_T]]:
    """Decorates a dataclass whose field `part` holds a `kind`: what that one knows, this one knows by the same name."""

    def decorate(cls: type[_T]) -> type[_T]:
        own = {entry.name for entry in fields(cls)} | vars(cls).keys()  # type: ignore[arg-type]
        for name in _readable(kind):
            if name in own:
                raise TypeError(f"{cls.__name__}.{name} hides {kind.__name__}.{name}; one name has one meaning")
            setattr(cls, name, property(attrgetter(f"{part}.{name}"), doc=f"That of `{part}`."))
        cls._within = _givable(kind)  # type: ignore[attr-defined]
        cls.__init__ = _taking_both(cls.__init__, part, kind)  # type: ignore[method-assign]
        return cls

    return decorate


def _readable(kind: type) -> Iterator[str]:
    """Fields and properties, those of records within among them."""
    yield from (entry.name for entry in fields(kind))
    yield from (name for name in dir(kind) if isinstance(getattr(kind, name), property | functools.cached_property))


def _givable(kind: type) -> frozenset[str]:
    """Names that the kind's constructor takes."""
    return frozenset(entry.name for entry in fields(kind)) | getattr(kind, "_within", frozenset())


def _taking_both(generated: Callable[..., None], part: str, kind: type) -> Callable[..., None]:
    names = _givable(kind)

    @functools.wraps(generated)
    def begin(self: Any, **given: Any) -> None:
        if part not in given or not names.isdisjoint(given):
            given = _nested(given, names, part, kind)
        if not isinstance(given[part], kind):
            place, came = f"{type(self).__name__}.{part}", type(given[part]).__name__
            raise TypeError(f"{place} is of type {came}; {kind.__name__} was wanted")
        generated(self, **given)

    return begin


def _nested(given: Mapping[str, Any], names: frozenset[str], part: str, kind: type) -> dict[str, Any]:
    """What was given, with the `names` of fields within made into the record within, or replaced in the one given."""
    loose = {name: value for name, value in given.items() if name in names}
    rest = {name: value for name, value in given.items() if name not in names}
    return rest | {part: replace(rest[part], **loose) if part in rest else kind(**loose)}
