"""One large run spread over a cluster: how many workers compute its blocks, and with what."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hpfl.clusters.connecting import Wanted
from hpfl.clusters.spread_cohort import spread_cohort
from hpfl.clusters.team import team_of
from hpfl.config import ConfigError
from hpfl.simulation.simulated_run import MakeCohort


@dataclass(frozen=True, kw_only=True)
class RaySpread:
    """So many workers, each with its CPUs, which are its threads, and a share of a GPU.

    Results have the bits of a run in one process with as many threads as a worker has, however many workers there are.
    `address` is that of a cluster; without it RAY_ADDRESS is asked, and then one is started on this machine.
    """

    workers: int = 2
    cpus_per_worker: int = 1
    gpus_per_worker: float = 0.0
    address: str = ""

    def __post_init__(self) -> None:
        if self.cpus_per_worker < 1:
            raise ConfigError(f"--cpus-per-worker is {self.cpus_per_worker}; wanted at least 1")
        self._wanted()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a summary says of it."""
        return {
            "engine": "ray",
            "workers": self.workers,
            "cpus_per_worker": self.cpus_per_worker,
            "gpus_per_worker": self.gpus_per_worker,
        }

    @contextmanager
    def cohorts(self, note: Callable[[str], None]) -> Iterator[MakeCohort]:
        """What makes cohorts on the workers, which end with this; the driver rounds as they do."""
        before = torch.get_num_threads()
        with team_of(self._wanted(), self.address, note) as team:
            torch.set_num_threads(self.cpus_per_worker)
            try:
                yield partial(spread_cohort, team)
            finally:
                torch.set_num_threads(before)

    def _wanted(self) -> Wanted:
        return Wanted(what="worker", count=self.workers, cpus=self.cpus_per_worker, gpus=self.gpus_per_worker)
