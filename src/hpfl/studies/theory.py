"""`hpfl theory`: the constants of the paper's assumptions along a run, and its bounds against what the loss did."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch

from hpfl.arrays import FloatArray
from hpfl.data.dataset import DownloadProgress
from hpfl.data.sources import load_dataset
from hpfl.experiment import choose_device
from hpfl.learning.curvature import Landscape
from hpfl.simulation.simulated_run import Simulation, build_simulation
from hpfl.studies.theory_bounds import Constants, RunCourse
from hpfl.studies.theory_constants import ConstantEstimate, Estimator
from hpfl.studies.theory_replay import RecordedRun, Witness, difference, full_batch_cohort, read_run
from hpfl.training.loop import train
from hpfl.training.record import RoundRecord
from hpfl.training.state import TrainState

ROUND_SHARE, POINT_SHARE = 1.0, 30.0
"""How long a round and a point take next to each other, for the progress bar."""
_FIRST_POINTS = (0, 1, 2)  # where the loss falls fastest
_VECTORS_PER_UE = 10  # parameter vectors of a UE that the estimates hold at once


@dataclass(frozen=True, kw_only=True)
class TheorySettings:
    """How much is estimated, and where."""

    points: int = 12
    ues: int = 200
    device: str = "auto"
    data_dir: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Watching:
    """What only watches: told what is being done and how far it is, asked whether to stop, told of downloads."""

    told: Callable[[str], None] = lambda text: None
    advanced: Callable[[float], None] = lambda share: None
    should_stop: Callable[[], bool] = lambda: False
    download: DownloadProgress | None = None


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was measured along a run, before anything is made of it."""

    recorded: RecordedRun
    course: RunCourse
    meta_secant: FloatArray  # [T]: largest |grad F_k(w_{t+1}) - grad F_k(w_t)| / |w_{t+1} - w_t| over edges
    deviation_sq: FloatArray  # [T + 1]: mean over edges of |grad F_k - grad F|^2
    estimates: tuple[ConstantEstimate, ...]
    num_ues: int  # UEs the constants were estimated on
    kinks: bool  # whether the model is not twice differentiable everywhere
    first_difference: tuple[int, list[str]] | None  # round and fields in which the replay left the records

    @property
    def constants(self) -> Constants:
        """The largest of what was seen: a lower bound of the constants for all parameters."""
        return reduce(Constants.joined, (estimate.constants for estimate in self.estimates))

    @property
    def rounds(self) -> int:
        """Rounds played again."""
        return len(self.course.outer_lr)


def examine(folder: Path, options: TheorySettings, watching: Watching | None = None) -> Findings:
    """Play a run again and measure it; stopped early, it tells of the rounds until then."""
    watching = watching or Watching()
    recorded = read_run(folder)
    device = choose_device(options.device)
    dataset = load_dataset(
        recorded.config.data.dataset,
        options.data_dir,
        progress=watching.download,
        options=recorded.config.data.options("dataset"),
    )
    simulation = build_simulation(recorded.config, dataset, device=device, stopwatch=time.perf_counter)
    witness = Witness(full_batch_cohort(recorded.config, simulation, dataset, device), simulation)
    estimator = make_estimator(recorded, simulation, witness, options, told=watching.told)
    course = _Playback(recorded, witness, estimator, points(options.points, len(recorded.records)), watching)
    course.begin(simulation.start)
    train(simulation.start, simulation.parts, simulation.settings, course.after_round)
    return Findings(
        recorded=recorded,
        course=witness.course(),
        meta_secant=witness.column("meta_secant"),
        deviation_sq=witness.column("deviation_sq"),
        estimates=tuple(course.estimates),
        num_ues=estimator.landscape.num_ues,
        kinks=_has_kinks(simulation),
        first_difference=course.first_difference,
    )


def points(count: int, rounds: int) -> tuple[int, ...]:
    """Rounds after which the constants are estimated: the first few, the last, and evenly spaced ones between."""
    first = [number for number in _FIRST_POINTS if number <= rounds][: max(count - 1, 1)]
    spaced = np.linspace(first[-1], rounds, max(count - len(first) + 1, 2)).round().astype(int).tolist()
    return tuple(sorted({*first, *spaced}))


def make_estimator(
    recorded: RecordedRun,
    simulation: Simulation,
    witness: Witness,
    options: TheorySettings,
    *,
    told: Callable[[str], None],
) -> Estimator:
    """The estimator of a run: all UEs, or as many as asked for and as fit the memory, drawn at random."""
    fleet, learning = simulation.fleet, recorded.config.learning
    everyone = np.flatnonzero(fleet.num_samples)
    params = simulation.start.params
    fitting = int(0.5e9 * learning.memory_gb // (_VECTORS_PER_UE * params.numel() * params.element_size()))
    count = min(options.ues or len(everyone), len(everyone), max(fitting, 1))
    streams = simulation.parts.streams
    ues = everyone[streams.at("theory/ues").choice(len(everyone), count)]
    edge_of = fleet.edge_of_ue[ues]
    shares = 1.0 / np.bincount(edge_of, minlength=fleet.num_edges)[edge_of]
    land = Landscape.of(
        simulation.task, witness.cohort.data.samples, ues=ues, shares=shares, memory_gb=learning.memory_gb
    )
    return Estimator(
        landscape=land,
        edge_of=edge_of,
        inner_lr=learning.inner_lr,
        outer_lr=learning.outer_lr,
        streams=streams,
        told=told,
    )


class _Playback:
    """Watches the replay: has every round measured, and the constants estimated at some."""

    def __init__(
        self, recorded: RecordedRun, witness: Witness, estimator: Estimator, at: tuple[int, ...], watching: Watching
    ) -> None:
        self.recorded, self.witness, self.estimator, self.at, self.watching = recorded, witness, estimator, at, watching
        self.estimates: list[ConstantEstimate] = []
        self.first_difference: tuple[int, list[str]] | None = None

    def begin(self, start: TrainState) -> None:
        """The initial model."""
        self.witness.see(start.params)
        self._estimate(0, start.params, None)

    def after_round(self, state: TrainState, record: RoundRecord) -> bool:
        """Measure a round; answers whether to go on."""
        before = self.witness.moments[-1].params
        self.watching.told(f"round {state.round}")
        self.witness.see_round(state.params, record)
        self._compare(record)
        self.watching.advanced(ROUND_SHARE)
        stopping = self.watching.should_stop()
        if not stopping and state.round in self.at:
            self._estimate(state.round, state.params, before)
        return state.round < len(self.recorded.records) and not stopping

    def _estimate(self, number: int, params: torch.Tensor, before: torch.Tensor | None) -> None:
        self.estimates.append(self.estimator.at(number, params, before))
        self.watching.advanced(POINT_SHARE)

    def _compare(self, record: RoundRecord) -> None:
        differing = difference(self.recorded.records[record.round - 1], record.to_json())
        if differing and self.first_difference is None:
            self.first_difference = record.round, differing


def _has_kinks(simulation: Simulation) -> bool:
    kinds = (torch.nn.ReLU, torch.nn.LeakyReLU, torch.nn.PReLU, torch.nn.MaxPool2d, torch.nn.Hardtanh)
    return any(isinstance(part, kinds) for part in simulation.task.module.modules())
