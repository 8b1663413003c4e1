"""Names for interchangeable parts: one small file and one line here make a new planner, channel, model or data set.

Packages outside this one add theirs through entry points of the group `hpfl.<kind>s`, for example
`[project.entry-points."hpfl.planners"]`.
"""

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class UnknownNameError(ValueError):
    """A name that no registered part has."""


def imported(path: str) -> Any:
    """The function or class behind "module:callable", which need not be registered."""
    try:
        found = resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        wanted = f"wanted an importable module:callable ({error}); PYTHONPATH says where to look"
        raise UnknownNameError(wanted) from None
    if not callable(found):
        raise UnknownNameError(f"wanted a callable; {path} is {type(found).__name__}")
    return found


class Registry(Generic[T]):
    """Parts of one kind by name, in order of registration; entry points are looked at on first use."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, T] = {}
        self._outside_seen = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: `@PLANNERS.register("joint")`."""

        def add(part: T) -> T:
            if name in self._parts:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._parts[name] = part
            return part

        return add

    def get(self, name: str) -> T:
        """The part called `name`; an unknown name is answered with the known ones."""
        self._look_outside()
        if name not in self._parts:
            raise UnknownNameError(f"no {self.kind} is called {name!r}; there are {', '.join(self._parts)}")
        return self._parts[name]

    def names(self) -> tuple[str, ...]:
        """All names, the shipped ones first."""
        self._look_outside()
        return tuple(self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def _look_outside(self) -> None:
        if self._outside_seen:
            return
        self._outside_seen = True
        for point in entry_points(group=f"hpfl.{self.kind.replace(' ', '_')}s"):
            if point.name not in self._parts:
                self._parts[point.name] = point.load()
