"""The seam between many runs and what plays them: a job is plain data, an engine plays jobs, a course hears of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be played: a function by its name, and what it is told, in JSON, so that it can go anywhere.

    `player` is `module:function`, called as `function(task, playing)`: see `Player`. What a job leaves, it leaves in
    files; played again after its process was killed, it goes on from them. `rounds` is how many it has at most.
    """

    name: str
    player: str
    task: Mapping[str, Any]
    rounds: int
    gpus: float = 0.0
    """The share of a GPU it is given, where the engine gives any."""
    resumes: bool = True
    """Whether, stopped after a round, it goes on from there; else it begins anew, and may as well be killed."""
    like: str = ""
    """What it is alike in with jobs that take as long: the cell of a run, say."""

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold of it: all."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """How a job ended: done; stopped after a round, to go on later (neither done nor error); or with an error."""

    done: bool
    error: str = ""
    """A sentence that says what was wrong, or the end of a traceback where nothing says it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the player returned: plain data."""

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold of it: all."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Playing:
    """What a player is given: whom to tell of a round and of what should be known, and whom to ask whether to stop."""

    on_round: Callable[[int], None] = lambda number: None
    note: Callable[[str], None] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False


Player = Callable[[Mapping[str, Any], Playing], Mapping[str, Any]]
"""Plays one run; what it returns says under "done" whether all of it is there now."""


class Course(Protocol):
    """Hears how jobs go, always in the process and thread that called `JobEngine.run`; an error of its ends that."""

    def begun(self, job: Job) -> None:
        """A process has taken it up; again, if another one was killed over it."""
        ...

    def round(self, job: Job, number: int) -> None:
        """It has played this round; not every round need be told."""
        ...

    def note(self, job: Job, text: str) -> None:
        """It says something that should be known."""
        ...

    def ended(self, job: Job, outcome: JobOutcome) -> None:
        """It is over."""
        ...

    def should_stop(self) -> bool:
        """Whether no further job is to be begun, and those at work are to end after their round."""
        ...


class JobEngine(AbstractContextManager[Any], Protocol):
    """Plays jobs. What it starts, processes or actors, is there between enter and exit, for all calls of `run`."""

    def run(self, jobs: Sequence[Job], course: Course) -> None:
        """Play all, several at a time, begun in their order; back when all have ended or a stop has been obeyed."""
        ...
