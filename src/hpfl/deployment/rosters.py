"""Who sits where: the names of a parent's children by number, from a list or from a file that may change meanwhile.

The experiment's shape gives the slots, which are numbers; a roster only says who sits in them. A slot may be empty.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from hpfl.deployment.file_watch import WatchedFiles
from hpfl.deployment.logs import log
from hpfl.deployment.node_names import NODE_NAME, NODE_NAME_IS
from hpfl.deployment.settings import SettingsError

EMPTY_SLOT = "-"

_LARGEST_FILE_BYTES = 4_000_000
_LONGEST_SHOWN = 80


class ChildRoster(Mapping[str, int]):
    """Names by number, as they are now; whoever holds it sees changes of its file after `has_changed`."""

    def __init__(self, slots: range, names: Sequence[str], *, what: str, file: str = "") -> None:
        if names and file:
            raise SettingsError(f"{what} and {what}_file are both given; wanted one of them")
        self.slots = slots
        self._what = what
        self._file = Path(file) if file else None
        self._watched = WatchedFiles([file] if file else [])
        self._seats = seats_in(self._file, slots) if self._file else _seated(list(names), slots, what)

    def has_changed(self) -> bool:
        """Look at the file; whether others sit here now. A faulty file changes nothing, and its fault is logged."""
        if self._file is None or not self._watched.have_changed():
            return False
        try:
            seats = seats_in(self._file, self.slots)
        except SettingsError as error:
            log("roster not changed", level=logging.WARNING, reason=str(error))
            return False
        came, went = seats.items() - self._seats.items(), self._seats.items() - seats.items()
        self._seats = seats
        log("roster changed", what=self._what, came=_shown(came), went=_shown(went), seated=len(seats))
        return bool(came or went)

    def __getitem__(self, name: str) -> int:
        return self._seats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seats)

    def __len__(self) -> int:
        return len(self._seats)


def num_slots(roster: Mapping[str, int]) -> int:
    """How many children there may be at once, now or later."""
    return len(roster.slots if isinstance(roster, ChildRoster) else roster)


def training_seats(roster: Mapping[str, int], newcomers: Collection[int]) -> Collection[int]:
    """Numbers of those on a roster that take part in rounds."""
    numbers = roster.values()
    return [number for number in numbers if number not in newcomers] if newcomers else numbers


def seats_in(path: Path, slots: range) -> dict[str, int]:
    """A roster file: one name per line in the order of the numbers, `-` for an empty slot, `#` begins a comment."""
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise SettingsError(f"{path} has {path.stat().st_size} bytes; a roster has at most {_LARGEST_FILE_BYTES}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a list of names: {error.reason}") from None
    entries: list[str] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        entry = line.split("#", 1)[0].strip()
        if not entry:
            continue
        _check_entry(entry, f"{path}, line {number}", line_of)
        line_of.setdefault(entry, number)
        entries.append(entry)
    if not entries:
        raise SettingsError(f"{path} names nobody; put {EMPTY_SLOT} on a line for each slot that is empty")
    return _seated(entries, slots, str(path))


def _check_entry(entry: str, where: str, line_of: Mapping[str, int]) -> None:
    if entry == EMPTY_SLOT:
        return
    if not NODE_NAME.fullmatch(entry):
        raise SettingsError(f"{where}: {entry[:_LONGEST_SHOWN]!r} is no node name: {NODE_NAME_IS}")
    if entry in line_of:
        raise SettingsError(f"{where}: {entry!r} sits at line {line_of[entry]} already")


def _seated(names: list[str], slots: range, what: str) -> dict[str, int]:
    """Names by number: in order where there is one for each slot, else by the number that each name ends with."""
    taken = [name for name in names if name != EMPTY_SLOT]
    if len(set(taken)) != len(taken):
        raise SettingsError(f"{what} lists {len(set(taken))} different names; the experiment has {len(slots)}")
    if len(names) == len(slots):
        return {name: number for name, number in zip(names, slots, strict=True) if name != EMPTY_SLOT}
    if len(names) > len(slots):
        raise SettingsError(f"{what} lists {len(names)} names; the experiment has {len(slots)}")
    return _by_own_number(names, slots, what)


def _by_own_number(names: list[str], slots: range, what: str) -> dict[str, int]:
    """Some names were taken off: the others keep their places, which only names such as `ue-7` tell."""
    seats: dict[int, str] = {}
    for name in names:
        tail = name.rpartition("-")[2]
        number = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < len(str(slots.stop)) + 1 else -1
        if number not in slots or number in seats:
            raise SettingsError(
                f"{what} lists {len(names)} names, the experiment has {len(slots)}, and {name!r} does not end with a "
                f"number from {slots.start} to {slots.stop - 1} of its own; put {EMPTY_SLOT!r} for each empty slot"
            )
        seats[number] = name
    return {name: number for number, name in sorted(seats.items())}


def _shown(seats: set[tuple[str, int]]) -> list[str]:
    return [f"{name} at {number}" for name, number in sorted(seats, key=lambda seat: seat[1])[:20]]
