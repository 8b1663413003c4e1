"""Traces: channel gains, compute times and availability read from a file instead of drawn, and written down to replay.

A trace is a table with the columns `what, round, part, member, value`, one value a line. `what` is `ue_gain` or
`edge_gain` (power gain), `compute_s` (seconds of an edge round that starts then) or `available` (0 or 1); rounds count
from 0; `part` is 0, and for gains that change within a round (`network.coherence_s`) counts its coherence blocks;
`member` numbers UEs or edges. What a trace does not mention is drawn; what it mentions it gives for every member.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import FloatArray
from hpfl.config import ConfigError
from hpfl.network.radio import Recorded
from hpfl.training.watching import RunResult, Watcher

COLUMNS = ("what", "round", "part", "member", "value")
Key = tuple[int, int]
UE_GAIN, EDGE_GAIN, COMPUTE_S, AVAILABLE = "ue_gain", "edge_gain", "compute_s", "available"
_WANTED: dict[str, tuple[str, Callable[[float], bool]]] = {
    UE_GAIN: ("a power gain must be positive", lambda value: value > 0),
    EDGE_GAIN: ("a power gain must be positive", lambda value: value > 0),
    COMPUTE_S: ("seconds must be at least 0", lambda value: value >= 0),
    AVAILABLE: ("it must be 0 or 1", lambda value: value in {0.0, 1.0}),
}


class TraceError(ConfigError):
    """A trace that cannot be used; the message names the file and the line."""


@dataclass(frozen=True)
class Trace:
    """The values of a trace by name and round (or block), one array over all members each."""

    path: Path
    values: Mapping[str, Mapping[Key, FloatArray]]

    def of(self, what: str) -> Recorded | None:
        """What the trace says of `what`; None where it says nothing."""
        if what not in self.values:
            return None
        held = self.values[what]

        def at(key: Key) -> FloatArray:
            if key not in held:
                there, wanted = (f"round {number} part {part}" for number, part in (max(held), key))
                raise TraceError(f"{self.path} has {what} up to {there}; {wanted} was wanted")
            return held[key]

        return at


def read_trace(path: Path, *, num_ues: int, num_edges: int) -> Trace:
    """The trace in a CSV or Parquet file, checked whole."""
    if not path.is_file():
        raise TraceError(f"network.trace is {str(path)!r}; there is no such file")
    members = _members(num_ues, num_edges)
    found: dict[str, dict[Key, FloatArray]] = {}
    for where, cells in _parquet(path) if path.suffix == ".parquet" else _csv(path):
        what, key, member, value = _checked(where, cells, members)
        row = found.setdefault(what, {}).setdefault(key, np.full(members[what], np.nan))
        if not math.isnan(row[member]):
            raise TraceError(f"{where}: {what} of member {member} in round {key[0]} part {key[1]} is given twice")
        row[member] = value
    _refuse_gaps(path, found)
    return Trace(path, found)


class TraceFile(Watcher):
    """Writes down what a run draws, as a trace that replays it; what a resumed run draws again is written once."""

    def __init__(self, path: Path, *, resume: bool, num_ues: int, num_edges: int) -> None:
        if path.suffix != ".csv":
            raise TraceError(f"network.write_trace is {str(path)!r}; a trace is written as .csv")
        if path.exists() and not resume:
            raise TraceError(f"network.write_trace is {str(path)!r}, which exists; choose another name")
        self._seen = _whole_groups(path, _members(num_ues, num_edges)) if path.exists() else set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = path.open("a", encoding="utf-8", newline="")
        except OSError as error:
            raise TraceError(
                f"network.write_trace is {str(path)!r}, which cannot be written ({error.strerror})"
            ) from None
        if not self._seen:
            self._file.truncate(0)
            self._file.write(",".join(COLUMNS) + "\n")

    def record(self, what: str, key: Key, values: NDArray[Any]) -> None:
        """Add the values of all members in a part of a round."""
        if (what, key) not in self._seen:
            self._seen.add((what, key))
            start = f"{what},{key[0]},{key[1]}"
            cells = values.astype(np.float64).tolist()
            self._file.write("".join(f"{start},{member},{value!r}\n" for member, value in enumerate(cells)))
            self._file.flush()

    def ended(self, result: RunResult) -> None:
        """Nothing more will be drawn."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _csv(path: Path) -> Iterator[tuple[str, list[Any]]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, [])
            if header != list(COLUMNS):
                raise TraceError(f"{path} begins with {','.join(header)!r}; wanted the columns {','.join(COLUMNS)}")
            for cells in reader:
                yield f"{path} line {reader.line_num}", cells
        except (UnicodeDecodeError, csv.Error) as error:
            raise TraceError(
                f"{path} cannot be read after line {reader.line_num} ({error}); wanted CSV in UTF-8"
            ) from None


def _parquet(path: Path) -> Iterator[tuple[str, list[Any]]]:
    try:
        import pandas as pd

        table = pd.read_parquet(path)
    except ImportError as error:
        raise TraceError(f"{path} is a Parquet file, which needs pandas and pyarrow: {error}") from None
    if list(table.columns) != list(COLUMNS):
        raise TraceError(f"{path} has the columns {','.join(map(str, table.columns))}; wanted {','.join(COLUMNS)}")
    for number, cells in enumerate(table.itertuples(index=False, name=None)):
        yield f"{path} row {number}", list(cells)


def _checked(where: str, cells: list[Any], members: Mapping[str, int]) -> tuple[str, Key, int, float]:
    if len(cells) != len(COLUMNS):
        raise TraceError(f"{where} has {len(cells)} cells; wanted {len(COLUMNS)}")
    what = str(cells[0])
    if what not in members:
        raise TraceError(f"{where}: what is {what!r}; wanted {', '.join(members)}")
    try:
        key, member, value = (int(cells[1]), int(cells[2])), int(cells[3]), float(cells[4])
    except ValueError:
        raise TraceError(f"{where}: {cells[1:]} are not a round, a part, a member and a number") from None
    if min(key) < 0 or not 0 <= member < members[what]:
        raise TraceError(
            f"{where}: round {key[0]}, part {key[1]}, member {member}; wanted rounds and parts from 0 on, "
            f"members 0 to {members[what] - 1}"
        )
    meaning, allowed = _WANTED[what]
    if not math.isfinite(value) or not allowed(value):
        raise TraceError(f"{where}: {what} is {value}; {meaning}")
    return what, key, member, value


def _refuse_gaps(path: Path, found: Mapping[str, Mapping[Key, FloatArray]]) -> None:
    if not found:
        raise TraceError(f"{path} is empty; a trace has at least one line")
    for what, rows in found.items():
        for key, row in rows.items():
            missing = np.flatnonzero(np.isnan(row))
            if missing.size:
                raise TraceError(
                    f"{path}: {what} in round {key[0]} part {key[1]} lacks member {missing[0]} ({missing.size} in all)"
                )


def _members(num_ues: int, num_edges: int) -> dict[str, int]:
    return {UE_GAIN: num_ues, EDGE_GAIN: num_edges, COMPUTE_S: num_ues, AVAILABLE: num_ues}


def _whole_groups(path: Path, members: Mapping[str, int]) -> set[tuple[str, Key]]:
    """What a stopped run has written down for all members; what comes after is cut off."""
    seen: set[tuple[str, Key]] = set()
    with path.open("rb+") as file:
        good = 0
        for line in iter(file.readline, b""):
            cells = line.decode(errors="replace").rstrip("\n").split(",")
            if not line.endswith(b"\n") or len(cells) != len(COLUMNS):
                break
            if cells[0] in members and cells[3] == str(members[cells[0]] - 1):
                seen.add((cells[0], (int(cells[1]), int(cells[2]))))
                good = file.tell()
        file.truncate(good)
    return seen
