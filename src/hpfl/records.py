"""Records of arrays in which every array says what it has one entry per, so that slicing one cannot forget any."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, IntArray

__all__ = ["APART", "PER_EDGE", "PER_UE", "Index", "counted", "spread", "taken"]

Index = IntArray | slice
"""Which entries of an array, in which order."""

PER_EDGE: Mapping[str, Any] = {"per": "edge"}
"""Metadata of a field with one entry per edge; with `absent`, the entry of an edge that is not there."""
PER_UE: Mapping[str, Any] = {"per": "ue"}
"""Metadata of a field with one entry per UE; with `numbers = "edge"` its entries are places of edges."""
APART: Mapping[str, Any] = {"apart": True}
"""Metadata of a field with a record that may be absent and whose arrays go by names of its own: `counted` passes it."""

_Change = Callable[[Any, Field[Any]], Any]


def counted(record: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Every field of a record, and of the records in it, that has one entry per edge or UE, with its value."""
    kind = record.__class__
    if kind not in _COUNTED:
        _COUNTED[kind] = tuple(_found(record, ""))
    for entry, read in _COUNTED[kind]:
        yield entry, read(record)


_COUNTED: dict[type, tuple[tuple[Field[Any], Callable[[Any], Any]], ...]] = {}
"""Where each kind of record has them, which is the same in all of a kind."""


def _found(record: Any, within: str) -> Iterator[tuple[Field[Any], Callable[[Any], Any]]]:
    for entry in _fields(record.__class__):
        if "per" in entry.metadata:
            yield entry, attrgetter(within + entry.name)
        elif "apart" not in entry.metadata and _is_record(value := getattr(record, entry.name)):
            yield from _found(value, f"{within}{entry.name}.")


def taken(record: Any, *, edges: IntArray | BoolArray | None = None, ues: Index | None = None) -> dict[str, Any]:
    """The fields to `replace` for a record of these edges and UEs (None: all of them), in this order.

    No field is named here, so that none can be forgotten: each is taken by what it says of itself.
    """
    chosen = None if edges is None else _numbers(edges)

    def take(value: Any, entry: Field[Any]) -> Any:
        about = entry.metadata
        found = _entries(value, chosen if about["per"] == "edge" else ues)
        return _places(found, chosen) if about.get("numbers") == "edge" and chosen is not None else found

    return _changed(record, take)


def spread(record: Any, there: BoolArray) -> dict[str, Any]:
    """The fields to `replace` for a record over all edges, from one over those that are `there`."""

    def over_all(value: Any, entry: Field[Any]) -> Any:
        if entry.metadata["per"] != "edge":
            return value
        if "absent" not in entry.metadata:
            raise TypeError(f"{entry.name} must say what an edge has that is not there (absent)")
        absent = entry.metadata["absent"]
        everywhere = np.full(there.size, absent, dtype=np.result_type(value, type(absent)))
        everywhere[there] = value
        return everywhere

    return _changed(record, over_all)


def _changed(record: Any, change: _Change) -> dict[str, Any]:
    """Every field that has entries, changed, and every record within with its own changed; what is None stays so."""
    made: dict[str, Any] = {}
    for entry in _fields(record.__class__):
        value = getattr(record, entry.name)
        if "per" in entry.metadata:
            made[entry.name] = None if value is None else change(value, entry)
        elif _is_record(value):
            made[entry.name] = replace(value, **_changed(value, change))
        elif isinstance(value, np.ndarray):
            place = f"{type(record).__name__}.{entry.name}"
            raise TypeError(f"{place} is an array; its field must say what it has one entry per (PER_EDGE or PER_UE)")
    return made


@cache
def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _is_record(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")  # as `is_dataclass`, which takes longer


def _numbers(chosen: IntArray | BoolArray) -> IntArray:
    return np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64, copy=False)


def _entries(value: Any, at: Index | None) -> Any:
    if at is None:
        return value
    if isinstance(value, tuple):
        return tuple(value[place] for place in np.arange(len(value))[at].tolist())
    return value[at]


def _places(numbers: IntArray, among: IntArray) -> IntArray:
    """Where each number stands in `among`, in which all of them are."""
    place = np.zeros(among.max(initial=-1) + 1, dtype=np.int64)
    place[among] = np.arange(among.size)
    return place[numbers]
