"""Which cell of a sweep each other cell is set against."""

from collections.abc import Sequence

from hpfl.config import ConfigError
from hpfl.sweeps.cells import Cell
from hpfl.sweeps.study_file import CASE, SweepStudy


def baselines(study: SweepStudy, cells: Sequence[Cell]) -> dict[str, str]:
    """The name of the cell that each cell is set against: like it, but with the baseline's values; of itself, none."""
    wanted = study.baseline
    strange = [key for key in wanted if key not in study.axes]
    if strange:
        raise ConfigError(
            f"baseline has {strange[0]}, which is not varied here; varied are {', '.join(study.axes) or 'seeds alone'}"
        )
    meant = [cell for cell in cells if all(cell.values[key] == value for key, value in wanted.items())]
    if wanted and not meant:
        told = ", ".join(f"{key} = {value!r}" for key, value in wanted.items())
        raise ConfigError(f"baseline is {told}; no cell has that, the first is {cells[0].label}")
    of_case = {key for case in study.cases for key in case} if CASE in wanted else set()
    shared = [key for key in study.axes if key not in {*wanted, *of_case}]
    first = {_frozen(cell, shared): cell.name for cell in reversed(meant)}
    found = {cell.name: first.get(_frozen(cell, shared), "") for cell in cells} if wanted else {}
    return {name: other for name, other in found.items() if other and other != name}


def _frozen(cell: Cell, keys: Sequence[str]) -> str:
    return repr([cell.values[key] for key in keys])
