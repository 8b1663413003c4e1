"""All that a sweep will be, known and checked before its first run: cells, runs, folder, and which runs are stale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpfl.reporting.folder import numbered
from hpfl.sweeps.cells import Cell, cells_of, parts_of
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.set_against import baselines
from hpfl.sweeps.sweep_folder import BasedStudy, is_free


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A study with its cells and runs, and the folder they go to; `stale` runs were made by other code."""

    based: BasedStudy
    cells: Sequence[Cell]
    parts: Sequence[StudyPart]
    out: Path
    stale: Sequence[str]


def planned(based: BasedStudy, out: Path, *, keep_stale: bool = False) -> Sweep:
    """Make every cell and every run of a study; whatever is wrong with one is refused here."""
    cells = cells_of(based.study, based.base)
    baselines(based.study, cells)
    parts = parts_of(based.study, cells)
    stale = {part.name for part in parts if done(part, out) is None and done(part, out, stale=True) is not None}
    if keep_stale:
        parts = [replace(part, code="") if part.name in stale else part for part in parts]
    return Sweep(based=based, cells=cells, parts=parts, out=out, stale=sorted(stale))


def usual_folder(name: str, based: BasedStudy) -> Path:
    """runs/NAME-sweep, or -2, -3, ...: the first that holds this sweep, or nothing."""
    usual = Path("runs") / f"{name}-sweep"
    return next(folder for folder in numbered(usual) if is_free(folder, based))
