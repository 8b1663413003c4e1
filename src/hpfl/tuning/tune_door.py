"""`hpfl.tune`, as scripts and notebooks call it: a study in a file or in Python, and a table of its trials."""

from __future__ import annotations  # pandas is an extra

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.config import Config
from hpfl.interactive import in_notebook, interrupts_taken, is_shown
from hpfl.reporting.frames import RoundRecords, pandas_needed
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_door import based_on, refuse_failed
from hpfl.sweeps.sweeping import Cluster, Means
from hpfl.told_errors import REFUSALS, tell
from hpfl.tuning.plan import planned_search, usual_folder
from hpfl.tuning.tune_folder import home_of_search
from hpfl.tuning.tune_tables import trial_rows
from hpfl.tuning.tuning import carry_out_search

if TYPE_CHECKING:
    from pandas import DataFrame


def tune(
    base: str | Path | Config,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int = 0,
    gpus: int = 0,
    cluster: Cluster | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
    progress: bool | None = None,
    run: bool = True,
    **study: Any,
) -> DataFrame:
    """Search the best values of keys for every case of a study, and return one row per trial.

    `base` is a configuration, a preset's name, or a file: a configuration's, or a study's (`study.toml`). `study` says
    the rest, as such a file does; what is searched is in `tune`:
    `tune={"space": {"learning.outer_lr": {"low": 0.01, "high": 1.0, "log": True}}, "limit": 60, "trials": 20}`. The
    best trial of each case has `best`; its configuration is OUT/best/CASE.toml.

    Everything is kept in `out` (default: runs/NAME-tune). Trials that are there are not run again. The first interrupt
    ends runs after their round; called again, the search goes on. It needs `pip install 'hpfl[tune]'`.
    """
    pandas_needed()
    try:
        based, name = based_on(base, study)
        folder = Path(out) if out is not None else _home(base) or usual_folder(name, based)
        plan = planned_search(based, folder, where="tune" if isinstance(base, Config) else str(base))
        means = Means(
            engine=engine,
            workers=workers,
            gpus=gpus,
            cluster=cluster or Cluster(),
            device=device,
            data_dir=None if data_dir is None else Path(data_dir),
            run=run,
        )
        display = SweepDisplay(quiet=not is_shown(progress), notebook=in_notebook())
        with display, interrupts_taken(lambda text: print(text, file=sys.stderr)) as stop:
            result = carry_out_search(plan, means, display, should_stop=lambda: stop.is_asked)
        refuse_failed(result.left)
        if result.left.missing:
            print("stopped: call it again to go on", file=sys.stderr)
        return RoundRecords(trial_rows(plan, result.searches)).to_frame()
    except REFUSALS as error:
        tell(error)


def _home(base: str | Path | Config) -> Path | None:
    return None if isinstance(base, Config) else home_of_search(Path(base))
