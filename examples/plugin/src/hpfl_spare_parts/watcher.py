"""Watcher `rounds-csv`: a line of a CSV file for every round, as soon as it is over."""

from pathlib import Path

from hpfl import part
from hpfl.options import Options, option
from hpfl.training import RoundRecord, Run, TrainState, Watcher

HEADER = "round,time_s,num_aggregated,uplink_bits\n"


class CsvOptions(Options):
    """Options of watcher `rounds-csv`."""

    file: str = option("rounds.csv", "name of the file in the run's folder", min_length=1)


@part(options=CsvOptions)
class RoundsCsv(Watcher):
    """Round, seconds, number of edges that arrived and bits on air, as lines of a CSV file."""

    def __init__(self, folder: Path | None, *, options: CsvOptions) -> None:
        self.path = None if folder is None else folder / options.file

    def started(self, run: Run) -> None:
        """A run that goes on keeps the lines of the rounds behind it; those it will play again go."""
        if self.path is None:
            return
        behind = self.path.read_text().splitlines(keepends=True)[1 : run.state.round + 1] if run.state.round else []
        self.path.write_text(HEADER + "".join(behind))

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """One more line."""
        if self.path is None:
            return
        with self.path.open("a") as file:
            file.write(f"{record.round},{record.time_s},{record.num_aggregated},{record.uplink_bits}\n")
