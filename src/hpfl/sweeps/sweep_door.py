"""`hpfl.sweep`, as scripts and notebooks call it: a study in a file or in Python, and a table of its runs."""

from __future__ import annotations  # pandas is an extra

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpfl.config import Config
from hpfl.interactive import in_notebook, interrupts_taken, is_shown
from hpfl.reporting.frames import RoundRecords, pandas_needed
from hpfl.reporting.store import OutputError
from hpfl.sweeps.runner import Unfinished
from hpfl.sweeps.study_file import SweepStudy, is_study, study_of
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import BASE, BasedStudy, base_of, home_of, open_study
from hpfl.sweeps.sweep_plan import planned, usual_folder
from hpfl.sweeps.sweeping import Cluster, Means, carry_out
from hpfl.sweeps.swept import result_rows
from hpfl.told_errors import REFUSALS, tell

if TYPE_CHECKING:
    from pandas import DataFrame


def sweep(
    base: str | Path | Config,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int = 0,
    gpus: int = 0,
    cluster: Cluster | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
    keep_stale: bool = False,
    progress: bool | None = None,
    run: bool = True,
    **study: Any,
) -> DataFrame:
    """Run every combination of what is varied with every seed, and return one row per run.

    `base` is a configuration, a preset's name, or a file: a configuration's, or a study's (`study.toml`). `study` says
    the rest, as such a file does: `grid={"network.bandwidth_hz": [1e6, 5e6], "planning.planner": ["joint", "full"]}`,
    `zip={...}`, `cases=[{"name": ..., "section.key": ...}]`, `set={...}` for all, `seeds=5`, `targets=[0.9]`,
    `baseline={"planning.planner": "full"}`, `outputs=[...]`. `vary` is another word for `grid`.

    Everything is kept in `out` (default: runs/NAME-sweep): runs, results.csv, tables, figures and a page. Runs that
    are there are not run again. `workers` processes work side by side (0: as many as there are cores, at most 8), or
    on a cluster (`engine="ray"`; `cluster` says what each is given there). The
    first interrupt ends runs after their round; called again, the sweep goes on.
    """
    pandas_needed()
    try:
        based, name = based_on(base, study)
        folder = Path(out) if out is not None else _home(base) or usual_folder(name, based)
        place = None if data_dir is None else Path(data_dir)
        means = Means(
            engine=engine,
            workers=workers,
            gpus=gpus,
            cluster=cluster or Cluster(),
            device=device,
            data_dir=place,
            run=run,
        )
        with SweepDisplay(quiet=not is_shown(progress), notebook=in_notebook()) as display:
            plan = planned(based, folder, keep_stale=keep_stale)
            with interrupts_taken(lambda text: print(text, file=sys.stderr)) as stop:
                result = carry_out(plan, means, display, should_stop=lambda: stop.is_asked)
        refuse_failed(result.left)
        if result.left.missing:
            print(f"stopped: {len(result.left.missing)} runs are left; call it again to go on", file=sys.stderr)
        return RoundRecords(result_rows(result.swept)).to_frame()
    except REFUSALS as error:
        tell(error)


def based_on(base: str | Path | Config, study: Mapping[str, Any]) -> tuple[BasedStudy, str]:
    """The study that a script asked for, with its base, and what its folder is called by."""
    asked = dict(study)
    if "vary" in asked:
        asked["grid"] = {**asked.get("grid", {}), **asked.pop("vary")}
    if isinstance(base, Config):
        return BasedStudy(study=_study({"base": BASE, **asked}), base=base), "own"
    path = Path(base)
    if path.is_file() and is_study(path):
        opened = open_study(path)
        return BasedStudy(study=_study({**opened.study.to_tree(), **asked}), base=opened.base), path.stem
    made = _study({"base": str(base), **asked})
    return BasedStudy(study=made, base=base_of(made)), path.stem


def _study(tree: Mapping[str, Any]) -> SweepStudy:
    return study_of(_listed(tree), where="sweep")


def _listed(value: Any) -> Any:
    """Tuples, ranges and such as lists, as TOML would have them."""
    if isinstance(value, Mapping):
        return {key: _listed(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_listed(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value


def _home(base: str | Path | Config) -> Path | None:
    return None if isinstance(base, Config) else home_of(Path(base))


def refuse_failed(left: Unfinished) -> None:
    """An error of the first run that failed."""
    for name, error in left.failed.items():
        more = f" (and {len(left.failed) - 1} more failed)" if len(left.failed) > 1 else ""
        raise OutputError(f"{name}: {error}{more}")
