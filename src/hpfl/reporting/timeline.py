"""`timeline.jsonl`: what every edge was doing when, written round by round and read back as bars."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting.drawn_file import DrawnFile
from hpfl.reporting.folder import TIMELINE
from hpfl.reporting.store import OutputError
from hpfl.training.phases import AGGREGATED, BROADCAST, DROPPED, NAMES, SUPERSEDED, Phases
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

INSTANTS = (AGGREGATED, BROADCAST, SUPERSEDED, DROPPED)
_KEYS = {"round", "edge", "phase", "start_s", "end_s", "base_round", "bits"}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One phase of one edge, from its first stretch to its last; `round` is that of its end."""

    edge: int
    phase: str
    start_s: float
    end_s: float
    base_round: int
    bits: float
    round: int


class TimelineFile(DrawnFile):
    """Appends rounds to the timeline in `out`."""

    def __init__(self, out: Path) -> None:
        super().__init__(out / TIMELINE)

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """Write what the edges were doing in a round."""
        self.append(record.phases)

    def append(self, phases: Phases | None) -> None:
        """Write a round's lines and hand them to the operating system."""
        if phases is not None:
            self._file.append("".join(json.dumps(row) + "\n" for row in phases.rows()).encode())

    def last_round(self) -> int | None:
        """The last round up to which every line is whole; None where no line is damaged.

        A damaged line may be of the same round as the one before it, unless nothing comes after: then it is of a round
        that was being written when the machine stopped.
        """
        numbers = [_round_of(line) for line in _whole_lines(self.path)] if self.path.exists() else []
        if None not in numbers:
            return None
        damaged = numbers.index(None)
        whole = numbers[damaged - 1] or 0 if damaged else 0
        return max(whole - 1, 0) if any(numbers[damaged:]) else whole

    def rewind(self, to_round: int) -> None:
        """Drop the lines of later rounds, and damaged ones, where no mark tells how far the others reach."""
        self.close()
        if self.path.exists():
            numbered = [(_round_of(line), line) for line in _whole_lines(self.path)]
            kept = [line for number, line in numbered if number is not None and number <= to_round]
            atomic.write_bytes(self.path, b"".join(kept))


def read_timeline(folder: Path, rounds: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The lines of a run's timeline, of the rounds `first` to `last` where given; damage is an error."""
    path = Path(folder) / TIMELINE
    if not path.is_file():
        raise OutputError(f"{path} is missing; a run that was given a folder for its results has it")
    rows = [_checked(line, f"{path} line {number}") for number, line in enumerate(_whole_lines(path), start=1)]
    first, last = rounds or (1, rows[-1]["round"] if rows else 1)
    chosen = [row for row in rows if first <= row["round"] <= last]
    if not chosen:
        there = f"rounds 1 to {rows[-1]['round']}" if rows else "none"
        raise OutputError(f"{path} has {there}; rounds {first} to {last} were wanted")
    return chosen


def bars(rows: list[dict[str, Any]]) -> list[Bar]:
    """Whole phases: stretches of one edge, phase and model that follow each other become one; instants stay."""
    found: list[Bar] = []
    last: dict[int, int] = {}
    for row in rows:
        bar = Bar(**row)
        before = found[last[bar.edge]] if bar.edge in last else None
        if before is not None and _goes_on(before, bar):
            bar = Bar(**(row | {"start_s": before.start_s, "bits": before.bits + bar.bits}))
            found[last[bar.edge]] = bar
        else:
            last[bar.edge] = len(found)
            found.append(bar)
    return found


def _goes_on(before: Bar, bar: Bar) -> bool:
    same = (before.phase, before.base_round) == (bar.phase, bar.base_round)
    return same and bar.phase not in INSTANTS and before.end_s == bar.start_s


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


def _checked(line: bytes, where: str) -> dict[str, Any]:
    row = _parsed(line)
    if row is None:
        raise OutputError(f"{where} is not a phase of an edge; wanted {', '.join(sorted(_KEYS))}")
    return row


def _round_of(line: bytes) -> int | None:
    row = _parsed(line)
    return None if row is None else int(row["round"])


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and set(row) == _KEYS and row["phase"] in NAMES else None
