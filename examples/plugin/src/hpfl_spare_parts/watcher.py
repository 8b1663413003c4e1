"""Watcher `rounds-csv`: a line of a CSV file for every round, as soon as it is over."""

from pathlib import Path

from hpfl import part
from hpfl.options import Options, option
from hpfl.training import RoundRecord, TrainState, Watcher


class CsvOptions(Options):
    """Options of watcher `rounds-csv`."""

    file: str = option("rounds.csv", "name of the file in the run's folder", min_length=1)


@part(options=CsvOptions)
class RoundsCsv(Watcher):
    """Writes round, seconds, edges that arrived, and bits to a CSV file."""

    def __init__(self, folder: Path | None, *, options: CsvOptions) -> None:
        self._path = None if folder is None else folder / options.file

    def round(self, state: TrainState, record: RoundRecord) -> None:
        """One more line; a round that is played again after a crash is written again."""
        if self._path is None:
            return
        lines = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        kept = [line for line in lines[1:] if int(line.split(",")[0]) < record.round]
        line = f"{record.round},{record.time_s},{record.num_aggregated},{record.uplink_bits}\n"
        self._path.write_text("".join(["round,time_s,num_aggregated,uplink_bits\n", *kept, line]))
