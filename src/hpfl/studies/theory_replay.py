"""A run played again from its configuration, with what happened to the loss and its gradients written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.assembly import local_training
from hpfl.config import Experiment, load, resolve
from hpfl.data.dataset import Dataset, to_float
from hpfl.learning import Cohort, Computes, recorded
from hpfl.reporting.folder import CONFIG, ROUNDS, RUN_ID, SUMMARY
from hpfl.reporting.store import OutputError, read_rounds, read_summary
from hpfl.simulation.simulated_run import Simulation
from hpfl.studies.theory_bounds import RunCourse
from hpfl.training.record import LATER, MEASURED_FIELDS, RoundRecord


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run as its folder tells it."""

    folder: Path
    config: Experiment
    records: Sequence[Mapping[str, Any]]

    @property
    def staleness_bound(self) -> int:
        """S."""
        return self.config.planning.staleness_bound


def read_run(folder: Path) -> RecordedRun:
    """Configuration and records of a simulated run, finished or stopped."""
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a folder of results; `hpfl run` makes one")
    records = read_rounds(folder)
    if not records:
        raise OutputError(f"{folder / ROUNDS} has no rounds yet; wanted a run with at least one")
    summary = read_summary(folder) if (folder / SUMMARY).exists() else {}
    if (folder / RUN_ID).exists() or summary.get("deployed"):
        raise OutputError(
            f"{folder} holds a deployed run, which cannot be played again: its rounds hang on real clocks and links; "
            "wanted a simulated one (`hpfl run`)"
        )
    if not (folder / CONFIG).is_file():
        raise OutputError(f"{folder / CONFIG} is missing; a run is played again from it")
    return RecordedRun(folder=folder, config=resolve(load(folder / CONFIG)), records=records)


def full_batch_cohort(config: Experiment, simulation: Simulation, dataset: Dataset, device: torch.device) -> Cohort:
    """All UEs with exact gradients on whole shards: the `grad F_{k,i}` of the theory, whatever the run itself used."""
    shards = simulation.dealt.shards
    training = replace(local_training(config), objective="exact", batch_size=None, local_steps=1)
    return Cohort(
        simulation.task,
        training,
        inputs=torch.from_numpy(to_float(dataset, dataset.inputs[shards.order])),
        targets=torch.from_numpy(dataset.targets[shards.order]),
        shards=shards,
        device=device,
        dtype=simulation.start.params.dtype,
        memory_gb=config.learning.memory_gb,
    )


@dataclass(frozen=True)
class SeenModel:
    """The model after some round: `F`, every edge's `grad F_k` [K, P] and their mean."""

    params: Tensor
    loss: float
    edge_gradients: Tensor

    @property
    def gradient(self) -> Tensor:
        """`grad F` [P] in float64; all edges weigh alike (Lemma 1)."""
        return self.edge_gradients.double().mean(dim=0)


@dataclass
class Witness:
    """Sees one model after another and keeps the figures that bounds are made of."""

    cohort: Cohort
    simulation: Simulation
    moments: list[SeenModel] = field(default_factory=list)  # the last two
    columns: dict[str, list[Any]] = field(default_factory=dict)
    computes: Computes = field(init=False)

    def __post_init__(self) -> None:
        self.computes = recorded(self.cohort)

    def see(self, params: Tensor) -> SeenModel:
        """Measure a model and keep it beside the one before."""
        fleet = self.simulation.fleet
        ues = np.flatnonzero(fleet.num_samples)
        found = self.computes.updates(
            params,
            ues=ues,
            groups=fleet.edge_of_ue[ues],
            num_groups=fleet.num_edges,
            streams=self.simulation.parts.streams,
            key=0,
        )
        moment = SeenModel(params, float(np.mean(found.meta_loss)), found.update)
        self.moments = [*self.moments[-1:], moment]
        self._add(
            loss=moment.loss,
            gradient_sq=float(moment.gradient.square().sum()),
            edge_gradient_sq=found.importance,
            deviation_sq=_deviation_sq(moment),
        )
        return moment

    def see_round(self, params: Tensor, record: RoundRecord) -> SeenModel:
        """Measure the model after a round, and the step that led to it."""
        before = self.moments[-1]
        after = self.see(params)
        moved = before.params.double() - params.double()
        step = self.simulation.settings.outer_lr * record.step_scale if record.aggregated else 0.0
        direction = moved / step if step else torch.zeros_like(moved)
        self._add(
            outer_lr=step,
            slope=float(before.gradient @ direction),
            direction_sq=float(direction.square().sum()),
            meta_secant=_secant(before, after, float(torch.linalg.vector_norm(moved))),
            **_arrivals(record, self.simulation.fleet.num_edges),
        )
        return after

    def course(self) -> RunCourse:
        """Everything seen so far as arrays."""
        names = RunCourse.__dataclass_fields__
        return RunCourse(**{name: np.array(self.columns[name]) for name in names})

    def column(self, name: str) -> FloatArray:
        """One figure of every model or round."""
        return np.array(self.columns[name])

    def _add(self, **values: Any) -> None:
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)


def difference(recorded: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """The fields in which a round played again differs from its record, leaving out what a wall clock measured."""
    names = {name for name, value in again.items() if value is not None} - MEASURED_FIELDS - (LATER - set(recorded))
    evaluated = {name for name, value in recorded.items() if value is None}  # then not, and now
    return sorted(name for name in names - evaluated if name not in recorded or recorded[name] != again[name])


def _deviation_sq(moment: SeenModel) -> float:
    """Mean over edges of `|grad F_k - grad F|^2`, the left side of Lemma 2."""
    distances = torch.linalg.vector_norm(moment.edge_gradients.double() - moment.gradient, dim=1)
    return float(distances.square().mean())


def _secant(before: SeenModel, after: SeenModel, moved: float) -> float:
    """Largest change of an edge's `grad F_k` over the distance the model moved; Lemma 1 says at most `L_F`."""
    if not moved:
        return 0.0
    turned = torch.linalg.vector_norm((after.edge_gradients - before.edge_gradients).double(), dim=1)
    return float(turned.max()) / moved


def _arrivals(record: RoundRecord, num_edges: int) -> dict[str, Any]:
    aggregated, staleness = np.zeros(num_edges, dtype=np.bool_), np.zeros(num_edges, dtype=np.int64)
    members = np.array(record.aggregated, dtype=np.int64)
    aggregated[members], staleness[members] = True, record.staleness
    return {"aggregated": aggregated, "staleness": staleness}
