"""What the runs of a search have come to, each read once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl.reporting.store import OutputError, read_rounds
from hpfl.reporting.targets import Row
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.run_ends import fell_behind
from hpfl.tuning.pruning import BestSoFar, course_of
from hpfl.tuning.tune_objective import TuneObjective


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """A run that is over: its value (None: it never arrived), what it counts as, and where it stood on the way."""

    value: float | None
    counted: float | None
    lost: str | None
    behind: bool
    course: BestSoFar
    rounds: int
    time_s: float
    wall_s: float
    environment: dict[str, Any]


class FoundRuns:
    """The runs in a folder that are over; `stale` names those that other code has made, which are to be run again.

    With `keep_stale` they are taken as they are.
    """

    def __init__(self, out: Path, objective: TuneObjective, by: str, *, keep_stale: bool = False) -> None:
        self.out, self.objective, self.by, self.keep_stale = out, objective, by, keep_stale
        self.stale = set[str]()
        self._found: dict[str, FoundRun] = {}

    def of(self, part: StudyPart) -> FoundRun | None:
        """What came of it; None while it is to be run."""
        if part.name not in self._found:
            content, fresh = done(part, self.out, stale=True), done(part, self.out)
            if content is not None and fresh is None:
                self.stale.add(part.name)
                content = content if self.keep_stale else None
            if content is None:
                return None
            self._found[part.name] = self._read(part, content)
        return self._found[part.name]

    def _read(self, part: StudyPart, content: dict[str, Any]) -> FoundRun:
        rows, lost = self._rows(part, content["diverged"]), content["diverged"]
        value = None if lost else self.objective.of_run(rows, part.config)
        metric, less = self.objective.watched
        return FoundRun(
            value=value,
            counted=self.objective.counted(value, lost),
            lost=lost,
            behind=fell_behind(rows, part.ends.get("keep_up")),
            course=course_of(rows, by=self.by, metric=metric, less=less),
            rounds=len(rows),
            time_s=rows[-1]["time_s"] if rows else 0.0,
            wall_s=content["wall_s"],
            environment=content["environment"],
        )

    def _rows(self, part: StudyPart, lost: str | None) -> Sequence[Row]:
        try:
            return read_rounds(part.folder(self.out))
        except OutputError:
            if lost is None:
                raise
            return []  # it was lost in its first round
