"""A run as its files tell it: records as columns, settings, UEs. Whatever draws or compares reads this."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.config import settings
from hpfl.learning.method import METHODS
from hpfl.reporting.folder import ROUNDS, RUN_ID, SUMMARY, UES
from hpfl.reporting.store import OutputError, read_config, read_rounds, read_summary
from hpfl.reporting.summary import evaluations
from hpfl.reporting.targets import LOSS, Row, Target

_DEPLOYED = "run"


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run to look at. Only the records are sure to be there: a run may be unfinished."""

    label: str
    rows: Sequence[Row]
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    ues: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    deployed: bool = False

    def column(self, name: str) -> FloatArray:
        """A figure of every round; NaN where it is unknown."""
        return _floats([row.get(name) for row in self.rows])

    def evaluated(self, metric: str) -> tuple[FloatArray, FloatArray]:
        """Seconds, simulated or measured, and values of the evaluations of `metric`."""
        measured = evaluations(self.rows, metric)
        return _floats([row["time_s"] for row in measured]), _floats([row[metric] for row in measured])

    def ue_column(self, name: str) -> FloatArray:
        """A final figure of every UE; empty where the run has none."""
        return _floats([None if isinstance(value, str) and not value else value for value in self.ues.get(name, ())])

    def setting(self, section: str, key: str) -> Any:
        """A key of the configuration, or None."""
        return self.config.get(section, {}).get(key)

    @property
    def time_word(self) -> str:
        """What `time_s` counts: virtual seconds, or those of a deployed run."""
        return time_word(deployed=self.deployed)

    @property
    def seed(self) -> int | None:
        """The seed, where the configuration is known."""
        return settings(self.config)["training.seed"] if self.config else None

    @property
    def target(self) -> Target | None:
        """What it was configured to be timed to, where that is known."""
        loss, accuracy = (self.setting("evaluation", key) for key in ("target_loss", "target_accuracy"))
        if loss:
            return Target(float(loss), LOSS)
        return None if accuracy is None else Target(float(accuracy))

    @property
    def calls(self) -> list[frozenset[int]]:
        """The edges called in every round."""
        return [frozenset(row["scheduled"]) for row in self.rows]

    @property
    def num_edges(self) -> int:
        """K, from the configuration or else from the highest edge ever scheduled."""
        seen = max((max(row["scheduled"], default=-1) for row in self.rows), default=-1) + 1
        return max(int(self.setting("network", "edges") or 0), seen)

    @property
    def planner(self) -> str | None:
        """The planner's name, where the configuration is known."""
        name = self.setting("planning", "planner")
        return None if name is None else str(name)

    @property
    def system(self) -> str | None:
        """Tiers and objective in the paper's abbreviations, where the configuration is known."""
        if not self.config:
            return None
        if self.planner == "shpfl":
            return "SHPFL"
        tiers = "" if self.setting("network", "backhaul") is False else "H"
        return f"{tiers}{'P' if self._adapts else ''}FL"

    @property
    def _adapts(self) -> bool:
        """Whether UEs are trained to adapt: an inner step, and a method that takes it."""
        method = self.setting("learning", "method")
        reads = METHODS.traits_of(str(method)).get("reads")
        return self.setting("learning", "inner_lr") != 0 and (reads is None or "inner_lr" in reads)


def time_word(*, deployed: bool) -> str:
    """What a run's seconds are."""
    return "measured time" if deployed else "simulated time"


def common_time_word(words: Iterable[str]) -> str:
    """What the seconds of all runs are; merely time where some were measured and others simulated."""
    found = set(words)
    return found.pop() if len(found) == 1 else "time"


def is_deployed(folder: Path) -> bool:
    """Whether a folder of results is that of a deployment, which leaves its name there before its first round.

    A damaged summary says nothing: whoever needs it says so.
    """
    if (folder / RUN_ID).exists():
        return True
    try:
        return (folder / SUMMARY).exists() and bool(read_summary(folder).get("deployed"))
    except OutputError:
        return False


def named_folder(folder: Path) -> Path:
    """The folder whose name a run goes by: a deployment's results lie in `run` inside of it."""
    folder = folder.resolve()
    return folder.parent if folder.name == _DEPLOYED and is_deployed(folder) else folder


def load_run(folder: Path | str, *, label: str | None = None) -> RunView:
    """Read a folder of results; its name is its label unless another is given (`hpfl` becomes HPFL if it is)."""
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a folder of results")
    rows = read_rounds(folder)
    if not rows:
        raise OutputError(f"{folder / ROUNDS} has no rounds yet")
    view = RunView(
        label=label or named_folder(folder).name,
        rows=rows,
        config=read_config(folder),
        summary=read_summary(folder) if (folder / SUMMARY).exists() else {},
        ues=_table(folder / UES),
        deployed=is_deployed(folder),
    )
    return replace(view, label=view.system) if view.system and view.label == view.system.lower() else view


def load_runs(folders: Sequence[Path | str]) -> list[RunView]:
    """Read several; where folder names repeat, as many of their parents are added as tell them apart."""
    paths = [Path(folder).resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise OutputError("the same folder is named twice")
    names = [named_folder(path) for path in paths]
    names = names if len(set(names)) == len(paths) else paths
    depth = 1
    while len({name.parts[-depth:] for name in names}) < len(names):
        depth += 1
    return [load_run(path, label="/".join(name.parts[-depth:])) for path, name in zip(paths, names, strict=True)]


def _table(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    header, *lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    return {name: [line[index] for line in lines] for index, name in enumerate(header)}


def _floats(values: Sequence[Any]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
