"""Names for interchangeable parts: one small file and one line here make a new planner, channel, model or data set.

A part may bring options, which are a pydantic model of its own, and traits, by which others know what it needs.
Packages outside this one add theirs through entry points of the group `hpfl.<plural>`, for example
`[project.entry-points."hpfl.planners"]`, and `module:callable` names a part that is in no registry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

T = TypeVar("T")

OURS = "hpfl"
"""The origin of the parts that are shipped."""
GIVEN = "given:"
"""What begins the name of a part that was handed over in Python; whoever runs the configuration again does the same."""
_MARK = "__hpfl_part__"


class UnknownNameError(ValueError):
    """A name that no part has."""


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


def part(options: type | str | None = None, **traits: Any) -> Callable[[T], T]:
    """Decorator: gives options and traits to a part that is found by an entry point or as `module:callable`."""

    def marked(made: T) -> T:
        setting = type.__setattr__ if isinstance(made, type) else object.__setattr__  # parts may be frozen
        setting(made, _MARK, (options, traits))
        return made

    return marked


@dataclass(frozen=True, eq=False)
class Part(Generic[T]):
    """One interchangeable part: what it is called, what it is, its traits, and where it comes from.

    `origin` is "hpfl", the distribution that brings it, or its own `module:callable`. `options_model` is the model of
    its options or, where that shall be imported only when it is needed, where the model is found.
    """

    kind: str
    name: str
    made: T
    options_model: type | str | None
    traits: Mapping[str, Any]
    origin: str

    @property
    def title(self) -> str:
        """`planner joint`."""
        return f"{self.kind} {self.name}"

    @property
    def meaning(self) -> str:
        """The first line of its docstring, or of what a part that is no function says `about` itself."""
        said = getattr(self.made, "__doc__" if callable(self.made) else "about", None)
        return (said or "").strip().split("\n", maxsplit=1)[0]

    @property
    def options(self) -> type | None:
        """The pydantic model of its options; None: it has none."""
        return resolve_name(self.options_model) if isinstance(self.options_model, str) else self.options_model

    def read(self, given: Mapping[str, Any]) -> Any:
        """What was written as options, validated; None for a part without options. `OptionError` tells of faults."""
        if self.options_model is None and not given:
            return None
        from hpfl.options import read_options  # pydantic: not everywhere that a model is trained

        return read_options(self.options, given, of=self.title)

    def bound(self, options: Any = None) -> T:
        """The part with its `options`, a validated model (None: as they are by default); as it is, if it has none."""
        if self.options_model is None:
            return self.made
        chosen = self.read({}) if options is None else options
        given = getattr(self.made, "with_options", None)  # of a part that is no function
        bound: T = partial(self.made, options=chosen) if given is None else given(chosen)  # type: ignore[operator,misc,arg-type]
        return bound


class Registry(Generic[T]):
    """Parts of one kind by name, in order of registration.

    `traits` are those that a part of this kind may have, with what they are where it says nothing. Parts that are
    `shipped` by their place, `module:attribute`, are imported when they are asked for, as are those of entry points.
    `called` is how such parts are called, `("labels", "streams=")` with an argument and a keyword: one from elsewhere
    that cannot be is of another kind, and refused. What parts make, where they make something, has the methods `made`.
    """

    def __init__(
        self,
        kind: str,
        *,
        plural: str = "",
        traits: Mapping[str, Any] | None = None,
        shipped: Mapping[str, str] | None = None,
        called: Sequence[str] | None = None,
        made: Sequence[str] = (),
    ) -> None:
        self.kind, self.plural = kind, plural or f"{kind}s"
        self.called, self.made = called, tuple(made)
        self.traits = dict(traits or {})
        self._parts: dict[str, Part[T] | Callable[[], Part[T]]] = {}
        for name, path in (shipped or {}).items():
            self._parts[name] = partial(self._found, name, partial(resolve_name, path), OURS)
        self._given: dict[str, Part[T]] = {}
        self._outside_seen = False

    @property
    def group(self) -> str:
        """The entry-point group of this kind."""
        return f"hpfl.{self.plural.replace(' ', '_')}"

    def register(self, name: str, *, options: type | str | None = None, **traits: Any) -> Callable[[T], T]:
        """Decorator: `@PLANNERS.register("joint")`; `options` is a pydantic model, or where one is found.

        A cell of a notebook that is run again, or a module that is loaded again, replaces its own part of that name.
        """

        def add(made: T) -> T:
            if name in self._parts and not _is_again(self._parts[name], made):
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            origin = str(getattr(made, "__module__", None) or OURS).split(".", maxsplit=1)[0]
            self._parts[name] = self._made(name, made, origin, options, traits)
            return made

        return add

    def get(self, name: str, **options: Any) -> T:
        """The part called `name`, with `options` where it has some; an unknown name is answered with the known ones."""
        found = self.part(name)
        return found.bound(found.read(options))

    def part(self, name: str) -> Part[T]:
        """The part called `name`, or named as `module:callable`, with its traits, its options' model and its origin."""
        if name.startswith(GIVEN):
            return self._handed(name)
        if ":" in name:
            return self._found(name, partial(imported, name), name)
        if name not in self._parts:
            self._look_outside()
        if name not in self._parts:
            there = f"there are {', '.join(self._parts)}" if self._parts else "none is here, but for module:callable"
            raise UnknownNameError(f"no {self.kind} is called {name!r}; {there}")
        found = self._parts[name]
        if not isinstance(found, Part):
            found = self._parts[name] = found()
        return found

    def give(self, name: str, made: T) -> None:
        """Know a part that was handed over by a name that begins with `given:`, in this process; no listing has it."""
        self._given[name] = self._found(name, lambda: made, "Python")

    def _handed(self, name: str) -> Part[T]:
        if name not in self._given:
            raise UnknownNameError(
                f"that {self.kind} was handed over in Python; hand over the same again with hpfl.run or hpfl.load, or "
                "name module:callable"
            )
        return self._given[name]

    def traits_of(self, name: str) -> Mapping[str, Any]:
        """The traits of a part, also of one that is not here: then nothing is known of it."""
        try:
            return self.part(name).traits
        except UnknownNameError:
            return self.traits

    def name_of(self, made: object) -> str | None:
        """What a part is called here; None for one that is not from here, or that nobody has asked for yet."""
        loaded = (found for found in self._parts.values() if isinstance(found, Part))
        return next((found.name for found in loaded if found.made is made), None)

    def names(self) -> tuple[str, ...]:
        """All names, the shipped ones first."""
        self._look_outside()
        return tuple(self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def _found(self, name: str, load: Callable[[], T], origin: str) -> Part[T]:
        """A part from elsewhere, with what it says of itself."""
        found = self._made(name, load(), origin, None, {})
        self._check_call(found)
        return found

    def _check_call(self, found: Part[T]) -> None:
        """Refuse what cannot be called as parts of this kind are; what does not say how it is called is believed."""
        if self.called is None or not callable(found.made):
            return
        try:
            shape = signature(found.made)
        except (TypeError, ValueError):
            return
        given = [name for name in self.called if not name.endswith("=")]
        named = dict.fromkeys(name[:-1] for name in self.called if name.endswith("="))
        try:
            shape.bind(*given, **named, **({} if found.options_model is None else {"options": None}))
        except TypeError as error:
            wanted = ", ".join([*self.called, *([] if found.options_model is None else ["options="])])
            raise UnknownNameError(f"it is no {self.kind}, for these are called with ({wanted}): {error}") from None

    def lacking(self, thing: object) -> str:
        """The methods that a thing made by a part of this kind should have and has not; empty: it has them all."""
        return ", ".join(name for name in self.made if not callable(getattr(thing, name, None)))

    def _made(self, name: str, made: T, origin: str, options: type | str | None, traits: Mapping[str, Any]) -> Part[T]:
        said, says = _mark(made)
        options, traits = said if options is None else options, {**says, **traits}
        for trait in traits:
            if trait not in self.traits:
                there = f"{self.plural} have {', '.join(self.traits)}" if self.traits else f"{self.plural} have none"
                raise ValueError(f"{self.kind} {name} has the trait {trait!r}; {there}")
        return Part(self.kind, name, made, options, {**self.traits, **traits}, origin)

    def _look_outside(self) -> None:
        if self._outside_seen:
            return
        self._outside_seen = True
        for point in entry_points(group=self.group):
            if point.name not in self._parts:
                self._parts[point.name] = partial(self._brought, point)

    def _brought(self, point: EntryPoint) -> Part[T]:
        """What an entry point names."""
        origin = _distribution(point)
        try:
            return self._found(point.name, point.load, origin)
        except (ImportError, AttributeError) as error:
            raise UnknownNameError(f"{self.kind} {point.name!r} of {origin} cannot be imported: {error}") from error


def _mark(made: Any) -> tuple[type | str | None, Mapping[str, Any]]:
    """What `part` left on it; what it left on a class it is derived from is that one's."""
    found: tuple[type | str | None, Mapping[str, Any]] = getattr(made, "__dict__", {}).get(_MARK, (None, {}))
    return found


def _is_again(there: object, made: object) -> bool:
    """Whether it is the same part once more: from the same session, or of the same name in the same module."""
    if not isinstance(there, Part) or not (module := getattr(made, "__module__", None)):
        return False
    if module != getattr(there.made, "__module__", None):
        return False
    names = {getattr(one, "__qualname__", None) for one in (there.made, made)}
    return module == "__main__" or (len(names) == 1 and None not in names)


def _distribution(point: EntryPoint) -> str:
    found = getattr(point, "dist", None)
    return str(getattr(point, "value", point.name)) if found is None else str(found.name)
