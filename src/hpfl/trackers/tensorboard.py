"""Watcher `tensorboard`: every round's figures as event files that TensorBoard shows while the run goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpfl.config import to_toml
from hpfl.options import Options, option
from hpfl.registry import part
from hpfl.trackers.tracking import RoundFigures, Tracker, name_of
from hpfl.training.watching import Run, RunResult


class TensorBoardOptions(Options):
    """Options of watcher `tensorboard`."""

    folder: str = option("", "where event files go, in a folder named after the run; empty: tensorboard/ in the run's")
    run_name: str = option("", "what the run is called in that folder; empty: as the run's folder")


@part(options=TensorBoardOptions)
class TensorBoard(Tracker):
    """Figures of rounds for TensorBoard: `tensorboard --logdir runs` shows all runs below a folder."""

    extra, package = "tensorboard", "tensorboardX"
    _writer: Any = None

    def __init__(self, folder: Path | None, *, options: TensorBoardOptions) -> None:
        super().__init__(folder)
        self._options = options

    def opened(self, run: Run, *, known: str, last: int) -> str:
        """A new event file; what older ones have of rounds after `last` is taken back by it."""
        from tensorboardX import SummaryWriter

        place = known or str(self._place(run))
        self._writer = SummaryWriter(place, purge_step=last + 1, filename_suffix=f".after-{last}")
        if not last:
            self._writer.add_text("config", f"```toml\n{to_toml(run.config)}\n```", global_step=0)
        return place

    def _place(self, run: Run) -> Path:
        if self._options.folder:
            return Path(self._options.folder).resolve() / name_of(run, self._options.run_name)
        if run.folder is None:
            raise ValueError("a run without a folder has nowhere to keep event files; option folder says where")
        return run.folder.resolve() / "tensorboard"

    def write(self, rows: Sequence[RoundFigures]) -> None:
        """One point per figure and round."""
        for number, figures in rows:
            for name, value in figures.items():
                self._writer.add_scalar(name, value, global_step=number)
        self._writer.flush()

    def close(self, result: RunResult) -> None:
        """End the file."""
        self._writer.close()
