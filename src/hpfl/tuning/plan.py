"""All that a search will be, known and checked before its first run: cases, space, objective, seeds and folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpfl.config import ConfigError
from hpfl.reporting.folder import numbered
from hpfl.sweeps.cells import Cell, cells_of
from hpfl.sweeps.set_against import baselines
from hpfl.sweeps.sweep_folder import BasedStudy
from hpfl.tuning.asking import optuna
from hpfl.tuning.space import Space, space_of
from hpfl.tuning.tune_folder import is_free
from hpfl.tuning.tune_objective import TuneObjective, objective_of
from hpfl.tuning.tune_settings import TuneSettings, settings_of

_BY = {"seconds": "time_s", "rounds": "round", "off": ""}


@dataclass(frozen=True, kw_only=True)
class TunePlan:
    """A study with its cases, and what is searched for each."""

    based: BasedStudy
    settings: TuneSettings
    cells: Sequence[Cell]
    space: Space
    objective: TuneObjective
    out: Path

    @property
    def seeds(self) -> list[int]:
        """Of every trial."""
        return self.based.study.seed_list

    @property
    def by(self) -> str:
        """The column by which runs are compared while they go on; none where no trial is given up."""
        asked = self.settings.prune
        if asked == "auto":
            asked = "rounds" if self.settings.objective == "rounds" else "seconds"
        return _BY[asked]

    @property
    def fresh(self) -> list[int]:
        """The seeds that no trial has."""
        asked = self.settings.fresh_seeds
        if isinstance(asked, list):
            return asked
        first = max(self.seeds) + 1
        return list(range(first, first + (len(self.seeds) if asked is None else asked)))

    @property
    def most_fresh(self) -> int:
        """Runs on fresh seeds, of one case."""
        return 2 * len(self.fresh)


def planned_search(based: BasedStudy, out: Path, *, where: str) -> TunePlan:
    """Check a whole study; whatever is wrong with it is refused here."""
    settings = settings_of(based.study.tune, where)
    optuna()
    cells = cells_of(based.study, based.base)
    baselines(based.study, cells)
    plan = TunePlan(
        based=based,
        settings=settings,
        cells=cells,
        space=space_of(settings, cells),
        objective=objective_of(based.study, settings, [cell.config for cell in cells]),
        out=out,
    )
    if seen := set(plan.fresh) & set(plan.seeds):
        raise ConfigError(f"tune.fresh_seeds has {min(seen)}, which trials are chosen by; wanted others than seeds")
    return plan


def usual_folder(name: str, based: BasedStudy) -> Path:
    """runs/NAME-tune, or -2, -3, ...: the first that holds this search, or nothing."""
    return next(folder for folder in numbered(Path("runs") / f"{name}-tune") if is_free(folder, based))
