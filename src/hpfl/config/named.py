"""Keys that name parts: each with a table of the part's own options beside it, or a list of names and tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic_core import CoreSchema, core_schema

from hpfl.config.fields import key
from hpfl.config.given import named, part
from hpfl.data.sources import DATASETS, check_source, names_part
from hpfl.options import Fault, OptionError
from hpfl.registry import GIVEN, Part, Registry

OPTIONS = "_options"
"""What the table beside a key is called: `planner_options` of `planner`."""


@dataclass(frozen=True, eq=False)
class Names:
    """Annotation of a key that names a part of a registry, or that is handed one over in Python.

    That one stands by a name from then on, unless it is kept `as_is`.
    """

    registry: Registry[Any]
    as_is: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """The type's own schema between two words of the registry's: which name, and whether there is such a part."""
        checked = core_schema.no_info_after_validator_function(self.checked, handler(source))
        return core_schema.no_info_before_validator_function(self.named, checked)

    def named(self, value: Any) -> Any:
        """The name of what is handed over."""
        return value if self.as_is else named(self.registry, value)

    def checked(self, value: Any) -> Any:
        """The name, if there is such a part; the registry's error names the known ones."""
        if self.as_is:
            return part(self.registry, value)
        if self.registry is DATASETS:
            check_source(value)
        else:
            self.registry.part(value)
        return value

    def found(self, value: Any) -> Part[Any] | None:
        """The part that is named; None for one handed over in Python, and for samples that no part brings."""
        if not isinstance(value, str) or (self.as_is and value.startswith(GIVEN)):
            return None
        if self.registry is DATASETS and not names_part(value):
            return None
        return self.registry.part(value)

    def read(self, value: Any, given: Mapping[str, Any]) -> Any:
        """The options of the part that is named, validated; None where it has none."""
        chosen = self.found(value)
        if chosen is not None:
            return chosen.read(given)
        if given:
            raise OptionError(Fault(f".{name}", " is not an option; what is named here has none") for name in given)
        return None

    def bound(self, value: Any, given: Mapping[str, Any]) -> Any:
        """The part with its options; itself, where it was handed over in Python."""
        chosen = self.found(value)
        return value if chosen is None else chosen.bound(self.read(value, given))


@dataclass(frozen=True, eq=False)
class NamesSeveral:
    """Annotation of a key that names parts in a row: a name, or a list of names and tables `{name = ..., ...}`.

    With `open_to` it may be the word that leaves the choice to others, which names no part.
    """

    registry: Registry[Any]
    open_to: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Anything, and then the registry's word."""
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, value: Any) -> list[Any] | str:
        """The list, if every part is there and takes its options, or the word that leaves it open."""
        if self.open_to and value in (self.open_to, [self.open_to]):
            return self.open_to
        value = self.named(value)
        for entry, (name, options) in enumerate(entries_of(value)):
            try:
                self.registry.part(name).read(options)
            except OptionError as error:
                raise ValueError("; ".join(f"[{entry}]{fault.where}{fault.said}" for fault in error.faults)) from None
        return [value] if isinstance(value, str) else list(value)

    def named(self, value: Any) -> Any:
        """The row with names in the place of parts that were handed over, alone or in tables."""
        if not isinstance(value, list | tuple):
            return named(self.registry, value)
        return [
            {**row, "name": named(self.registry, row["name"])}
            if isinstance(row, Mapping) and "name" in row
            else named(self.registry, row)
            for row in value
        ]

    def chosen(self, value: Any) -> tuple[tuple[Part[Any], Any], ...]:
        """Each part and its validated options (None where it has none); none where the choice is left open."""
        if self.open_to and value == self.open_to:
            return ()
        found = ((self.registry.part(name), options) for name, options in entries_of(value))
        return tuple((one, one.read(options)) for one, options in found)


def entries_of(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Name and options of each part in a row."""
    rows = [value] if isinstance(value, str) else value
    if not isinstance(rows, list | tuple):
        raise ValueError("it should be a name, or a list of names and of tables { name = ..., ... }")
    return [_entry(row) for row in rows]


def _entry(row: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(row, str):
        return row, {}
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        raise ValueError("each entry should be a name or a table { name = ..., ... }")
    return row["name"], {name: value for name, value in row.items() if name != "name"}


def options_key(of: str) -> Any:
    """The table of options beside the key `of`."""
    return key({}, f"options of {of}", since=3)


def slots_of(model: Any) -> Mapping[str, Names]:
    """The keys of a section that name one part."""
    return _annotated(model, Names)


def rows_of(model: Any) -> Mapping[str, NamesSeveral]:
    """The keys of a section that name parts in a row."""
    return _annotated(model, NamesSeveral)


@cache  # asked for many times by every configuration
def _annotated(model: Any, kind: type[Any]) -> Mapping[str, Any]:
    fields = model.model_fields.items()
    return {name: entry for name, field in fields for entry in field.metadata if isinstance(entry, kind)}
