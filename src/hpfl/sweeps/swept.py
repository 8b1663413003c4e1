"""The runs of a sweep that are there, and one flat row of each: axes, seed, last and best figures, ways to targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpfl.assembly import metrics_of
from hpfl.config import resolve
from hpfl.reporting.against_local import LOCAL, method_of
from hpfl.reporting.groups import Group
from hpfl.reporting.runs import RunView, load_run
from hpfl.reporting.store import OutputError, plain
from hpfl.reporting.summary import summarise, to_target
from hpfl.reporting.targets import Target, configured
from hpfl.reporting.ue_spread import fate_of_ues
from hpfl.reporting.ways import Ways, ways_to
from hpfl.sweeps.cells import SEED, Cell, toml_text
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.study_file import SweepStudy
from hpfl.sweeps.sweep_plan import Sweep

MEASURED = ("planning_s",)
"""Figures that were measured with a clock, and differ when a run is repeated."""
_METHOD = "learning.method"  # and what begins so: its options
_OF_TARGET = ("target_accuracy", "target_loss", *to_target([], None))


@dataclass(frozen=True, kw_only=True)
class SweptRun:
    """One run that is there: its cell, seed and records, how its model was lost if it was, and what it took."""

    cell: Cell
    seed: int
    view: RunView
    lost: str | None
    wall_s: float
    environment: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Swept:
    """All of a sweep that is there, in the order of its cells and seeds."""

    study: SweepStudy
    cells: Sequence[Cell]
    targets: Sequence[Target]
    runs: Sequence[SweptRun]

    def of(self, cell: Cell) -> list[SweptRun]:
        """The runs of one cell, by seed."""
        return [run for run in self.runs if run.cell is cell]

    @property
    def groups(self) -> list[Group]:
        """The runs by cell, those of which have rounds; each group is one line of a figure."""
        found = ((cell, tuple(run.view for run in self.of(cell) if run.view.rows)) for cell in self.cells)
        return [Group(label=cell.short_label, runs=views, kind=cell.name) for cell, views in found if views]

    def ways(self, target: Target) -> list[Ways]:
        """The way of every group to a target."""
        return [ways_to(group, target) for group in self.groups]


def swept(sweep: Sweep) -> Swept:
    """Read what is there of a sweep."""
    by_name = {cell.name: cell for cell in sweep.cells}
    found = ((part, done(part, sweep.out)) for part in sweep.parts)
    runs = {
        part.name: _run(part, content, by_name[part.name.rpartition("/")[0]], sweep.out)
        for part, content in found
        if content is not None
    }
    study = sweep.based.study
    order = [f"{cell.name}/{SEED}-{seed}" for cell in sweep.cells for seed in study.seed_list]
    return Swept(
        study=study,
        cells=sweep.cells,
        targets=study.wanted_targets or [configured(sweep.based.base.evaluation)],
        runs=[runs[name] for name in order if name in runs],
    )


def _run(part: StudyPart, content: Mapping[str, Any], cell: Cell, out: Path) -> SweptRun:
    label = f"{cell.label}, seed {part.labels[SEED]}"
    try:
        view = load_run(part.folder(out), label=label)
    except OutputError:
        if not content["diverged"]:
            raise
        view = RunView(label=label, rows=[])  # it was lost in its first round
    return SweptRun(
        cell=cell,
        seed=part.labels[SEED],
        view=view,
        lost=content["diverged"],
        wall_s=content["wall_s"],
        environment=content["environment"],
    )


def result_rows(sweep: Swept) -> list[dict[str, Any]]:
    """One flat row per run, all with the same columns; nothing in it depends on who ran it, or how fast."""
    made = [_row(run, sweep.targets, _alone(run, sweep.runs)) for run in sweep.runs]
    columns = dict.fromkeys(name for row in made for name in row)
    return [{name: plain(row.get(name)) for name in columns} for row in made]


def timing_rows(sweep: Swept) -> list[dict[str, Any]]:
    """What the runs took on the machine that they ran on."""
    return [
        {
            "run": run.view.label,
            SEED: run.seed,
            "wall_s": run.wall_s,
            "planning_s": summarise(run.view.rows, target=None)["planning_s"],
            **{name: run.environment.get(name) for name in ("device", "platform", "python", "torch", "numpy", "hpfl")},
        }
        for run in sweep.runs
    ]


def tag(target: Target) -> str:
    """What a target is called in the name of a column: `0.9`, or `loss_0.12`."""
    return f"loss_{target.value:g}" if target.is_loss else f"{target.value:g}"


def target_columns(target: Target) -> dict[str, str]:
    """What the figures of the way to a target are called in a row, by what they are called in a summary."""
    name = tag(target)
    return {
        "time_to_target_s": f"time_to_{name}_s",
        "rounds_to_target": f"rounds_to_{name}",
        "energy_to_target_j": f"energy_to_{name}_j",
        "uplink_bits_to_target": f"uplink_to_{name}_bits",
        "downlink_bits_to_target": f"downlink_to_{name}_bits",
    }


def _alone(run: SweptRun, runs: Sequence[SweptRun]) -> RunView | None:
    """The run of method `local` with this one's seed that differs from it by the method alone."""
    like = _but_for_method(run.cell)
    found = (other.view for other in runs if other.seed == run.seed and _but_for_method(other.cell) == like)
    return next((view for view in found if method_of(view) == LOCAL), None)


def _but_for_method(cell: Cell) -> str:
    return repr([(axis, value) for axis, value in cell.values.items() if not axis.startswith(_METHOD)])


def _row(run: SweptRun, targets: Sequence[Target], alone: RunView | None) -> dict[str, Any]:
    axes = {axis: plain_value(value) for axis, value in run.cell.values.items()}
    figures = summarise(run.view.rows, target=None, metrics=metrics_of(resolve(run.cell.config)))
    kept = {name: value for name, value in figures.items() if name not in (*MEASURED, *_OF_TARGET)}
    row = {"cell": run.cell.name, **axes, SEED: run.seed, "lost": run.lost is not None, **kept}
    row |= fate_of_ues(run.view, alone)
    for target in targets:
        way = to_target(run.view.rows, target)
        row |= {column: way[name] for name, column in target_columns(target).items()}
    return row


def plain_value(value: Any) -> Any:
    """A value that a cell of a table can hold; lists and tables as TOML writes them."""
    return toml_text(value) if isinstance(value, list | tuple | Mapping) else value
