"""Watcher `wandb`: every round's figures in an offline run of Weights & Biases, which `wandb sync` uploads."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.trackers.tracking import RoundFigures, Tracker, name_of, scalars, settings_of
from hpfl.training.watching import Run, RunResult


class WandbOptions(Options):
    """Options of watcher `wandb`."""

    folder: str = option("", "where its folder wandb/ is made; empty: in the run's folder")
    project: str = option("hpfl", "name of the project", min_length=1)
    run_name: str = option("", "name of the run; empty: as its folder")


@part(options=WandbOptions)
class Wandb(Tracker):
    """Figures of rounds for Weights & Biases, offline: nothing is sent until `wandb sync` is told to."""

    extra, package = "wandb", "wandb"
    _run: Any = None

    def __init__(self, folder: Path | None, *, options: WandbOptions) -> None:
        super().__init__(folder)
        self._options = options

    def opened(self, run: Run, *, known: str, last: int) -> str:
        """An offline run; one that goes on has the same id, in a folder of its own beside the first."""
        import wandb

        place = self._options.folder or run.folder
        if place is None:
            raise ValueError("a run without a folder has nowhere to keep wandb/; option folder says where")
        Path(place).mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            mode="offline",
            dir=str(place),
            project=self._options.project,
            name=name_of(run, self._options.run_name),
            id=known or secrets.token_hex(6),
            config=settings_of(run),
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True
            ),
        )
        return str(self._run.id)

    def write(self, rows: Sequence[RoundFigures]) -> None:
        """One step per round."""
        for number, figures in rows:
            self._run.log(figures, step=number)

    def close(self, result: RunResult) -> None:
        """Its summary, and how it ended."""
        self._run.summary.update(scalars(result.summary))
        self._run.finish(exit_code=0 if result.how in {"completed", "stopped"} else 1)
