"""What one UE computes: a cohort of one, whose draws are those of its simulated twin."""

import logging
from dataclasses import dataclass

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.assembly import local_training, metrics_of, products, sending_of, torch_dtype
from hpfl.config import Experiment
from hpfl.deployment.logs import log
from hpfl.deployment.node_parts import sketch_width
from hpfl.deployment.own_data import OwnData
from hpfl.deployment.wire import Vector
from hpfl.learning import Cohort, Evaluation, Kept, LocalTraining, NonFiniteUpdateError, Task, TestData
from hpfl.learning.method import Method
from hpfl.learning.personal import personal_model
from hpfl.rng import Streams
from hpfl.training.edge_round import draw_key
from hpfl.training.sketch import Projection, make_projection


@dataclass(frozen=True)
class OneShard:
    """All rows belong to UE `number`; those before it have none."""

    number: int
    num_samples: int

    @property
    def offsets(self) -> IntArray:
        """One segment, owned by the last UE."""
        return np.append(np.zeros(self.number + 1, dtype=np.int64), 1)

    @property
    def start(self) -> IntArray:
        """The segment begins at the first row."""
        return np.zeros(1, dtype=np.int64)

    @property
    def length(self) -> IntArray:
        """And has them all."""
        return np.array([self.num_samples], dtype=np.int64)


class Learner:
    """UE `number` with its own data; the global model comes in with each call."""

    def __init__(self, config: Experiment, number: int, data: OwnData, task: Task) -> None:
        self._config = config
        self._number = number
        self._data = data
        self._streams = Streams(config.training.seed)
        self.dtype = torch_dtype(config)
        self.task = task
        self._method = sending_of(config, task, torch.device("cpu")).method
        self._first_kept = None if self._method is None else _first_kept(self._method, task, config)
        self._test = TestData(data.test_inputs, data.test_targets, OneShard(number, len(data.test_inputs)))
        self._cohort = self._made(local_training(config), self._test)
        self._projection: Projection = make_projection(
            self.task.spec.num_parameters, self._streams, width=sketch_width(config)
        )

    @property
    def num_samples(self) -> int:
        """Training samples of this UE."""
        return len(self._data.inputs)

    def update(self, params: Vector, *, base_round: int, edge_round: int) -> Vector:
        """`(w - w_end) / beta` after this UE's local steps from `params`, with its twin's mini-batches."""
        return self._computed(self._cohort, params, key=draw_key(base_round, edge_round), kept=None)[0]

    def sketch(self, update: Vector) -> FloatArray:
        """The linear sketch of an update that the cloud plans with."""
        return self._projection(torch.from_numpy(update)).numpy()

    def local(self, params: Vector, kept: torch.Tensor | None, *, key: int) -> tuple[Vector, torch.Tensor | None]:
        """The same with what the method keeps, [S], before and after; None: it has not begun, or keeps nothing."""
        return self._computed(self._cohort, params, key=key, kept=self._rows(kept, 1))

    def begun(self, params: Vector, round_number: int) -> torch.Tensor | None:
        """What a newcomer keeps [S] after its first local work, on the model after so many rounds; None: nothing.

        Where that work is not finite, it is what a UE keeps that begins.
        """
        if self._method is None:
            return None
        first = self._method.first_kept(torch.from_numpy(params), self.task.spec)
        try:
            return self.local(params, first, key=draw_key(round_number, 0))[1]
        except NonFiniteUpdateError as error:
            log("no local work", level=logging.WARNING, round=round_number, reason=str(error))
            return first

    def evaluate(self, params: Vector, kept: torch.Tensor | None = None) -> FloatArray:
        """This UE's figures with what it keeps, in the order of the experiment's columns."""
        return np.array([values[self._number] for values in self._evaluation(params, kept).values()])

    def accuracies(self, params: Vector, kept: torch.Tensor | None = None) -> tuple[float, float]:
        """Of `params` and of the personal model on this UE's own test samples; NaN where that is not measured."""
        found, unknown = self._evaluation(params, kept), np.full(self._number + 1, np.nan)
        before, after = (found.get(f"{model}_accuracy", unknown) for model in ("global", "personalised"))
        return float(before[self._number]), float(after[self._number])

    def adapted(self, params: Vector, kept: torch.Tensor | None = None) -> Vector:
        """The personal model: as the method says, or `params` after the evaluation's inner steps on this UE's data."""
        rate, steps = self._adaptation()
        if self._method is not None:
            rows, training = self._rows(kept, 1).method, self._cohort.adapting(rate, steps)
            row = None if rows is None else rows[0]
            whole = torch.from_numpy(params)
            found = personal_model(self._cohort, self._method, whole, ue=self._number, kept=row, training=training)
            return np.asarray(found.numpy())
        if rate == 0:
            return params.copy()
        plain = LocalTraining(inner_lr=0.0, outer_lr=rate, local_steps=steps)
        return params - rate * self._computed(self._made(plain), params, key=0, kept=None)[0]

    def named(self, params: Vector) -> dict[str, torch.Tensor]:
        """A flat vector as named tensors, without what travels beside the model."""
        spec = self.task.spec
        parts = spec.unflatten(torch.from_numpy(params)).items()
        return {name: part.clone().contiguous() for name, part in parts if name not in spec.beside}

    def _computed(
        self, cohort: Cohort, params: Vector, *, key: int, kept: Kept | None
    ) -> tuple[Vector, torch.Tensor | None]:
        result = cohort.updates(
            torch.from_numpy(params),
            ues=np.array([self._number]),
            groups=np.zeros(1, dtype=np.int64),
            num_groups=1,
            streams=self._streams,
            key=key,
            kept=kept,
        )
        own = result.kept.method
        return np.ascontiguousarray(result.update[0].cpu().numpy()), None if own is None else own[0].cpu()

    def _evaluation(self, params: Vector, kept: torch.Tensor | None) -> Evaluation:
        (rate, steps), rows = self._adaptation(), self._rows(kept, self._number + 1)
        return self._cohort.evaluate(torch.from_numpy(params), self._test, inner_lr=rate, inner_steps=steps, kept=rows)

    def _rows(self, kept: torch.Tensor | None, count: int) -> Kept:
        """`count` times what this UE's method keeps; one that begins does so with the model that all begin with."""
        if self._method is None:
            return Kept()
        kept = self._first_kept if kept is None else kept
        assert kept is not None
        return Kept(kept.expand(count, -1)) if kept.numel() else Kept()

    def _adaptation(self) -> tuple[float, int]:
        return self._config.adaptation_lr, self._config.evaluation.inner_steps

    def _made(self, training: LocalTraining, test: TestData | None = None) -> Cohort:
        return Cohort(
            self.task,
            training,
            inputs=self._data.inputs,
            targets=self._data.targets,
            shards=OneShard(self._number, self.num_samples),
            test=test,
            method=self._method if test is not None else None,
            dtype=self.dtype,
            memory_gb=self._config.learning.memory_gb,
            products=products(self._config),
            metrics=metrics_of(self._config),
        )


def _first_kept(method: Method, task: Task, config: Experiment) -> torch.Tensor:
    """What a method keeps of a UE that begins, [S]; made once, for building a model seeds torch as a whole."""
    first = task.initial_parameters(Streams(config.training.seed).at("model")).to(torch_dtype(config))
    return method.first_kept(first, task.spec)
