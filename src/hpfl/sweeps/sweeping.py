"""A whole sweep: runs what is missing, then leaves results, tables, figures and page of all that is there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpfl.config import ConfigError
from hpfl.experiment import choose_device
from hpfl.sweeps.engines import make_engine
from hpfl.sweeps.jobs import JobEngine
from hpfl.sweeps.outputs import write_outputs
from hpfl.sweeps.runner import Place, ShouldStop, Unfinished, alone, play_parts
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import claim
from hpfl.sweeps.sweep_plan import Sweep
from hpfl.sweeps.sweep_tables import ResultTable
from hpfl.sweeps.swept import Swept, swept


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What a run is given on a cluster, and where that is."""

    cpus_per_run: int = 1
    gpus_per_run: float = 0.0
    address: str = ""

    def options(self, engine: str) -> dict[str, Any]:
        """What the engine is made with; refused where one machine's engine is told of it."""
        if self == Cluster():
            return {}
        if engine == "local":
            raise ConfigError("--cpus-per-run, --gpus-per-run and --address are a cluster's; wanted --engine ray")
        return {"cpus_per_run": self.cpus_per_run, "gpus_per_run": self.gpus_per_run, "address": self.address}


@dataclass(frozen=True, kw_only=True)
class Means:
    """With what a sweep is run: an engine and its workers, GPUs that these share, a device, and where data lie."""

    engine: str = "local"
    workers: int = 0
    gpus: int = 0
    cluster: Cluster = field(default_factory=Cluster)
    device: str = "auto"
    data_dir: Path | None = None
    run: bool = True
    """Whether anything is run; else results are made of the runs that are there."""

    @property
    def gpus_each(self) -> float:
        """The share of a GPU that a run is given."""
        shared = self.gpus / self.workers if self.gpus and self.workers else float(bool(self.gpus))
        return self.cluster.gpus_per_run or shared

    def make(self) -> JobEngine | None:
        """The engine; None where nothing is to be run. What cannot be had is refused."""
        if self.gpus and self.device == "cpu":
            raise ConfigError(f"--gpus is {self.gpus} and --device is cpu; wanted one of them")
        if self.engine == "local":
            choose_device(self.device)  # refused here, if there is none
        options = self.cluster.options(self.engine)
        return make_engine(self.engine, workers=self.workers, gpus=self.gpus, **options) if self.run else None

    def place(self, out: Path) -> Place:
        """Where runs lie that are made with them."""
        return Place(out=out, device=self.device, data_dir=self.data_dir, gpus_each=self.gpus_each)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """What a sweep has come to."""

    swept: Swept
    left: Unfinished
    tables: Sequence[ResultTable]


def carry_out(
    sweep: Sweep, means: Means, display: SweepDisplay, *, should_stop: ShouldStop = lambda: False
) -> SweepResult:
    """Run what is missing, and write everything that the study wants of what is there then."""
    engine = means.make()
    with alone(sweep.out):
        claim(sweep.out, sweep.based)
        left = Unfinished()
        if engine is not None:
            _say_stale(sweep, display.note)
            left = play_parts(sweep.parts, means.place(sweep.out), engine, display, should_stop=should_stop, go_on=True)
        found = swept(sweep)
        made = write_outputs(found, sweep.out, display.note) if found.runs else []
    return SweepResult(swept=found, left=left, tables=made)


def _say_stale(sweep: Sweep, say: Callable[[str], None]) -> None:
    if sweep.stale:
        kept = not any(part.code for part in sweep.parts if part.name in set(sweep.stale))
        runs = f"{len(sweep.stale)} run{'s are' if len(sweep.stale) > 1 else ' is'} stale"
        what = "taken as they are" if kept else "run again; --keep-stale takes them as they are"
        say(f"{runs}: made by another version of what computes them. They are {what}.")
