"""What trackers have in common: every round's figures, told once each, also by a run that goes on."""

import json
import math
import time
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from hpfl import atomic
from hpfl.config import ConfigError, to_toml
from hpfl.reporting.store import read_rounds
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState
from hpfl.training.watching import Run, RunResult, Watcher

NOTES = "trackers"
"""The folder in a run's own in which each tracker notes which run of its it writes to, and how far it is."""
PAUSE_S = 2.0
"""Figures are told together, at most so often; and at every checkpoint, and at the end."""

RoundFigures = tuple[int, dict[str, float]]
"""A round's number, and its figures by name."""


class Tracker(Watcher):
    """Collects the figures of rounds and hands them on in order, none twice.

    Rounds that a tracker has and a resumed run plays again are skipped: they have the same bits. Rounds that it lacks
    and the run has behind it are read from the run's folder. A run that starts from the beginning is a new one there.
    """

    extra: ClassVar[str]
    package: ClassVar[str]

    def __init__(self, folder: Path | None) -> None:
        if find_spec(self.package) is None:
            raise ConfigError(f"watcher {self.extra} needs {self.package}: pip install 'hpfl[{self.extra}]'")
        self.folder = folder
        self._waiting: list[RoundFigures] = []
        self._note: dict[str, Any] = {"last": 0}
        self._told_s = -math.inf

    def opened(self, run: Run, *, known: str, last: int) -> str:
        """Begin, or go on with the run that is `known` there and has rounds up to `last`; gives what it is known by."""
        raise NotImplementedError

    def write(self, rows: Sequence[RoundFigures]) -> None:
        """Tell of these rounds, and see to it that they are kept."""
        raise NotImplementedError

    def close(self, result: RunResult) -> None:
        """No more will come."""
        raise NotImplementedError

    def started(self, run: Run) -> None:
        """Open the tracker, and tell it what it lacks of the rounds behind."""
        kept = self._kept() if run.state.round else {}
        self._note = {"last": kept.get("last", 0)}
        self._note["run"] = self.opened(run, known=kept.get("run", ""), last=self._note["last"])
        behind = read_rounds(run.folder) if run.folder is not None and run.state.round else []
        self._waiting = [
            (row["round"], scalars(row)) for row in behind if self._note["last"] < row["round"] <= run.state.round
        ]

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """One more to tell of, unless it is there already."""
        if record.round > self._note["last"]:
            self._waiting.append((record.round, scalars(record.to_json())))
        if time.monotonic() - self._told_s >= PAUSE_S:
            self._hand_on()

    def saved(self, round_number: int) -> None:
        """What a run goes on from is told."""
        self._hand_on()

    def ended(self, result: RunResult) -> None:
        """Tell the rest."""
        self._hand_on()
        self.close(result)

    def _hand_on(self) -> None:
        self._told_s = time.monotonic()
        if not self._waiting:
            return
        self.write(self._waiting)
        self._note["last"] = self._waiting[-1][0]
        self._waiting = []
        if self.folder is not None:
            self._note_path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_text(self._note_path, json.dumps(self._note) + "\n")

    def _kept(self) -> dict[str, Any]:
        """What was noted; nothing where that cannot be read, so that a new run begins there."""
        if self.folder is None:
            return {}
        try:
            note = json.loads(self._note_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        whole = isinstance(note, dict) and isinstance(note.get("last"), int) and isinstance(note.get("run"), str)
        return note if whole else {}

    @property
    def _note_path(self) -> Path:
        assert self.folder is not None
        return self.folder / NOTES / f"{self.extra}.json"


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record or summary that can be drawn: no lists, nothing that is not finite."""
    plain = {name: value for name, value in row.items() if isinstance(value, int | float) and name != "round"}
    return {name: float(value) for name, value in plain.items() if math.isfinite(value)}


def settings_of(run: Run) -> dict[str, Any]:
    """The configuration as the run's file has it, section by section."""
    return tomllib.loads(to_toml(run.config))


def flat_settings(run: Run) -> dict[str, Any]:
    """The configuration by dotted key."""
    sections = settings_of(run).items()
    return {f"{section}.{key}": value for section, table in sections for key, value in table.items()}


def name_of(run: Run, given: str) -> str:
    """What the run shall be called: as said, else as its folder is."""
    return given or ("run" if run.folder is None else run.folder.resolve().name)
