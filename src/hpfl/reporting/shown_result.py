"""What a run leaves, as Python sees it: a line, a small page for notebooks, tables and pictures."""

from __future__ import annotations  # matplotlib is an extra

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.torch

from hpfl.reporting.figures import figure_of
from hpfl.reporting.folder import MODEL
from hpfl.reporting.formats import final_quality, seconds
from hpfl.reporting.frames import RoundRecords, UeColumns
from hpfl.reporting.looks import drawn_as
from hpfl.reporting.result_page import result_page
from hpfl.reporting.runs import RunView, load_run
from hpfl.training.watching import Ending, RunResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownResult(RunResult):
    """A result that can be looked at: `rounds.to_frame()`, `ues.to_frame()`, `plot()`, and by itself in a notebook.

    `settings` gives the configuration as the run's file has it. `folder` is where the run lies, None if nowhere.
    """

    rounds: RoundRecords
    ues: UeColumns = field(default_factory=UeColumns)
    label: str = "run"
    folder: Path | None = None
    settings: Callable[[], Mapping[str, Any]] = dict
    deployed: bool = False

    def __repr__(self) -> str:
        parts = [f"{len(self.rounds)} round{'' if len(self.rounds) == 1 else 's'}"]
        if self.rounds:
            parts.append(f"{seconds(self.rounds[-1]['time_s'])} {'measured' if self.deployed else 'simulated'}")
        if self.summary:
            parts.append(final_quality(self.summary))
        return f"<{self.label}: {', '.join(parts)}; {self.how}>"

    def _repr_html_(self) -> str:
        return result_page(self.view(), how=self.how, error=self.error, folder=self.folder)

    def plot(self, name: str = "progress", *, style: str = "screen") -> Figure:
        """A figure of matplotlib: progress, schedule, latency or ues, as in the run's folder of figures.

        `style` is "screen", or "ieee" and "ieee-wide" for one and two columns of a paper: `savefig("x.pdf")` then has
        the column's width, text of 8 points and its fonts embedded.
        """
        with drawn_as(style):
            return figure_of(self.view(), name)

    def view(self) -> RunView:
        """The run as pictures and comparisons take it."""
        return RunView(
            label=self.label,
            rows=self.rounds,
            config=self.settings(),
            summary=self.summary,
            ues=self.ues,
            deployed=self.deployed,
        )


def open_run(folder: str | Path) -> ShownResult:
    """The results in a folder, of a run that is finished or not: what `hpfl.run` gave, or `hpfl run` wrote.

    A model is there once a run has ended.
    """
    view, model = load_run(folder), Path(folder) / MODEL
    return ShownResult(
        rounds=RoundRecords(dict(row) for row in view.rows),
        summary=dict(view.summary),
        model=safetensors.torch.load_file(model) if model.is_file() else {},
        ues=UeColumns({name: _column(cells) for name, cells in view.ues.items()}),
        how=_ending(view.summary),
        label=view.label,
        folder=Path(folder),
        settings=partial(_same, view.config),
        deployed=view.deployed,
    )


def _same(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return config


def _ending(summary: Mapping[str, Any]) -> Ending:
    if summary.get("completed"):
        return "completed"
    return "diverged" if summary.get("diverged") else "stopped"


def _column(cells: Any) -> Any:
    """A column of a table as numbers where all of it is; an empty cell is NaN. Lists of labels become lists again."""
    for read in (np.int64, _number):
        try:
            return np.array([read(cell) for cell in cells])
        except ValueError:
            continue
    lists = np.empty(len(cells), dtype=object)
    lists[:] = [[int(entry) if entry.isdecimal() else entry for entry in cell.split()] for cell in cells]
    return lists


def _number(cell: str) -> float:
    return float(cell) if cell else np.nan
