"""A cohort whose rounds and evaluations a GPU has recorded: what is not recorded, the cohort itself computes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.batches import Batch, Samples
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.cohort import Cohort
from hpfl.learning.cohort_round import Answer, Request, reported
from hpfl.learning.computes import Computes
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.kept import Kept
from hpfl.learning.objective import LocalTraining
from hpfl.learning.packing import Store, whole_batch
from hpfl.learning.placement import refuse_empty
from hpfl.learning.precision import repeatable
from hpfl.learning.replay import LEAST_SHARE, EvaluationReplay, Pool, Replay
from hpfl.learning.room import Trial
from hpfl.learning.task import Task
from hpfl.rng import Streams


def make_cohort(task: Task, training: LocalTraining, **options: Any) -> Computes:
    """A `Cohort` with these options, recorded where a GPU can do so."""
    return recorded(Cohort(task, training, **options))


def recorded(cohort: Cohort) -> Computes:
    """The same cohort, recorded where a GPU can do so."""
    return RecordedCohort(cohort) if RecordedCohort.records(cohort) else cohort


class RecordedCohort:
    """Rounds of full batches in which most UEs take part, and evaluations, replayed as a GPU recorded them."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self.replays: dict[int, Replay] = {}  # by number of groups
        self.evaluations: dict[tuple[float, int], EvaluationReplay] = {}  # by inner step and number of them
        self._pool: Pool | None = None

    @staticmethod
    def records(cohort: Cohort) -> bool:
        """Whether a GPU can record what a cohort computes."""
        engine = cohort.engine
        recordable = isinstance(engine, ChainEngine) and engine.recordable and cohort.chunk is None
        return cohort.device.type == "cuda" and recordable and cohort.sending.is_plain

    @property
    def num_ues(self) -> int:
        """Number N of UEs with a shard."""
        return self.cohort.num_ues

    @property
    def device(self) -> torch.device:
        """Where the data and all updates lie."""
        return self.cohort.device

    def updates(
        self,
        params: Tensor,
        *,
        ues: IntArray,
        groups: IntArray,
        num_groups: int,
        streams: Streams,
        key: int,
        weights: FloatArray | None = None,
        kept: Kept | None = None,
        keep_per_ue: bool = False,
        coding: Coding = UNCODED,
    ) -> CohortUpdates:
        """Mean update per group, as of a `Cohort`."""
        cohort, params = self.cohort, params.to(self.device, self.cohort.data.samples.dtype)
        asked: dict[str, Any] = {"num_groups": num_groups, "streams": streams, "key": key, "weights": weights}
        with repeatable(cohort.products, self.device):
            apart = keep_per_ue or coding.asks
            replay = None if apart else self._replay(params, num_groups, len(np.unique(ues)))
            if replay is not None:
                request = Request.of(params, ues, groups, **asked)
                refuse_empty(request.ues, cohort.data.samples.shards.sizes)
                total, losses = replay.run(params, request.ues, request.groups, request.shares)
                return reported(request, Answer(total, losses, None, Kept()))
        own: dict[str, Any] = {"kept": kept, "keep_per_ue": keep_per_ue, "coding": coding}
        return cohort.updates(params, ues=ues, groups=groups, **own, **asked)

    def evaluate(
        self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1, kept: Kept | None = None
    ) -> Evaluation:
        """Figures of every UE, as of a `Cohort`."""
        cohort, params = self.cohort, params.to(self.device, self.cohort.data.samples.dtype)
        samples, training = cohort.data.tests(test), cohort.adapting(inner_lr, inner_steps)
        with repeatable(cohort.products, self.device):
            replay = self._evaluation(params, samples, training)
            if replay is not None:
                return cohort.evaluation_of(replay.run(params), samples)
        return cohort.evaluate(params, test, inner_lr=inner_lr, inner_steps=inner_steps, kept=kept)

    def _replay(self, start: Tensor, num_groups: int, taking_part: int) -> Replay | None:
        """A recorded round, where most UEs take part in full batches."""
        if self.cohort.training.batch_size is not None or taking_part < LEAST_SHARE * self.num_ues:
            return None
        parts = self._recordable(
            ("updates", 1, False, UNCODED.names), start, self.cohort.update_trial(start, keep_per_ue=False)
        )
        if parts is None:
            return None
        if num_groups not in self.replays:
            self._pool = self._pool or Pool()
            options: dict[str, Any] = {"num_groups": num_groups, "block_ues": self.cohort.block_ues}
            self.replays[num_groups] = Replay.record(*parts, start, **options, pool=self._pool)
        return self.replays[num_groups]

    def _evaluation(self, start: Tensor, tests: Samples, training: LocalTraining) -> EvaluationReplay | None:
        """A recorded evaluation, where all UEs have samples, the tests stay on the GPU, and the metrics allow it."""
        data, allowed = self.cohort.data, all(metric.recordable for metric in self.cohort.metrics)
        if not allowed or not data.stay(tests) or not data.samples.shards.sizes.all():
            return None
        kind, trial = ("evaluate", training.inner_steps), self.cohort.evaluation_trial(start, tests, training)
        parts = self._recordable(kind, start, trial)
        if parts is None:
            return None
        key = (training.inner_lr, training.inner_steps)
        if key not in self.evaluations:
            self._pool = self._pool or Pool()
            sizes, members = tests.shards.sizes, parts[1].layout.members
            batches = [whole_batch(tests, own, max(int(sizes[own].max()), 1)) for own in members]

            def evaluated(model: Tensor, train: Batch, test: Batch) -> Tensor:
                return self.cohort.figures(model, train, test, training)

            record = EvaluationReplay.record
            self.evaluations[key] = record(evaluated, parts[1], start, tests=batches, pool=self._pool)
        return self.evaluations[key]

    def _recordable(self, kind: object, start: Tensor, trial: Trial) -> tuple[ChainEngine, Store] | None:
        """Engine and shards of what may be recorded: from one model, each bucket whole in the memory."""
        data, engine = self.cohort.data, self.cohort.engine
        data.pack()
        if start.ndim != 1 or data.store is None or not isinstance(engine, ChainEngine):
            return None
        fits = (data.room.fits(kind, bucket, trial) >= len(own) for bucket, own in enumerate(data.whole.members))
        return (engine, data.store) if all(fits) else None
