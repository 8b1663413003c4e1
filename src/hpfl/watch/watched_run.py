"""One run that is watched: what it is, how far it has come, and any part of it that a page asks for."""

import threading
import time
from pathlib import Path
from typing import Any, Protocol

from hpfl.reporting.folder import CONFIG, ROUNDS, SUMMARY
from hpfl.watch.columns import RoundColumns, chosen_rounds, stride_of
from hpfl.watch.run_facts import RunFacts
from hpfl.watch.run_state import state_of

_ASKED_AGAIN_S = 1.0


class Watched(Protocol):
    """A run, wherever it is told of."""

    id: str
    lock: threading.RLock

    @property
    def count(self) -> int:
        """Rounds that are there."""
        ...

    def refresh(self) -> bool:
        """Read what is new; True where the rounds have begun anew."""
        ...

    def told(self) -> dict[str, Any]:
        """For the list of runs."""
        ...

    def state(self) -> str:
        """Whether it goes on."""
        ...

    def columns(self, first: int | None = None, last: int | None = None) -> dict[str, Any]:
        """All rounds or those of a stretch, thinned."""
        ...

    def rows(self, first: int, last: int) -> dict[str, list[float | None]]:
        """The columns of some rounds, all of them."""
        ...


class WatchedRun:
    """A folder of results, running or over, that is only ever read; safe to ask from several threads."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.id = folder, name
        self.lock = threading.RLock()
        self.rounds = RoundColumns(folder / ROUNDS)
        self._facts, self._looked_s = RunFacts(folder=folder), -_ASKED_AGAIN_S
        self._known: tuple[tuple[int, int, int], ...] = ()

    @property
    def facts(self) -> RunFacts:
        """Configuration and summary, read again when one of them has changed."""
        now = time.monotonic()
        if now - self._looked_s >= _ASKED_AGAIN_S:
            self._looked_s = now
            known = tuple(_stamp(self.folder / name) for name in (CONFIG, SUMMARY))
            if known != self._known:
                self._facts, self._known = RunFacts.of(self.folder), known
        return self._facts

    def refresh(self) -> bool:
        """Read what is new; True where the run's records have begun anew."""
        with self.lock:
            return self.rounds.refresh()

    @property
    def count(self) -> int:
        """Rounds that are there."""
        return len(self.rounds)

    def told(self) -> dict[str, Any]:
        """For the list of runs."""
        with self.lock:
            self.refresh()
            facts, count = self.facts, len(self.rounds)
            clock_s = self.rounds.row(count).get("time_s") if count else 0.0
            return {"id": self.id, **facts.told(), "rounds": count, "state": self.state(), "clock_s": clock_s}

    def state(self) -> str:
        """Whether it goes on."""
        facts = self.facts
        done = bool(facts.summary.get("completed")) or bool(facts.summary.get("diverged"))
        return state_of(self.folder / ROUNDS, rounds=len(self.rounds), total=facts.total_rounds, completed=done)

    def columns(self, first: int | None = None, last: int | None = None) -> dict[str, Any]:
        """All rounds or those of a stretch, thinned to what a chart can show."""
        with self.lock:
            self.refresh()
            count = len(self.rounds)
            start, end = max(first or 1, 1), min(last or count, count)
            step = stride_of(max(end - start + 1, 0), self.facts.evaluated_every)
            columns = self.rounds.columns(chosen_rounds(start, end, step))
            evaluated = self.rounds.evaluated() if count else []
            return {"count": count, "stride": step, "evaluated": evaluated, "columns": columns}

    def rows(self, first: int, last: int) -> dict[str, list[float | None]]:
        """The columns of new rounds, all of them."""
        with self.lock:
            return self.rounds.columns(list(range(first, last + 1)))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns
