"""Many UEs at once: chunks that fit a memory budget, sums per edge, and figures per UE.

cohort = Cohort(task, LocalTraining(inner_lr=0.03, outer_lr=0.07), inputs=x, targets=y, shards=shards)
updates = cohort.updates(w, ues=ues, groups=edge_of_ue[ues], num_groups=K, streams=streams, key=round)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.batches import Batch, Samples, Segments, drawn_index, member_draws
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.check import check_model
from hpfl.learning.engine import Engine, Losses, Sums, shares_of, try_one
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.general import GeneralEngine
from hpfl.learning.metrics import DEFAULT_METRICS, LOSS_COLUMNS, BoundMetric, columns_of, figures_of
from hpfl.learning.objective import LocalTraining
from hpfl.learning.packing import Layout, Limit, Store, gram_bytes, packed_bytes, whole_batch
from hpfl.learning.precision import Products, check_computes, check_products, repeatable
from hpfl.learning.replay import LEAST_SHARE, EvaluationReplay, Pool, Replay
from hpfl.learning.room import Room, Trial
from hpfl.learning.task import Task
from hpfl.rng import Streams

_MOST_PADDING = 0.25  # share of padding: a GPU pays more for chunks than for a little more arithmetic
_LITTLE_PADDING = 0.08  # where arithmetic is what costs
_USABLE = {"cpu": 0.75, "cuda": 0.5}  # share of the budget planned with; the rest is the allocator's and libraries'
_TRIED = 4  # samples that a model is tried with
_STORE_SHARE = 0.4  # of what the data leave free, for whole shards packed once

Draws = list[dict[str, IntArray]] | None  # per local step and role: samples [n, batch_size]; None for full batches


class Cohort:
    """The UEs of a run with their data on a device; everything else comes in with each call."""

    def __init__(
        self,
        task: Task,
        training: LocalTraining,
        *,
        inputs: Tensor,
        targets: Tensor,
        shards: Segments,
        test: TestData | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        memory_gb: float = 4.0,
        layerwise: bool = True,
        chunk: int | None = None,
        products: Products = "full",
        metrics: tuple[BoundMetric, ...] = DEFAULT_METRICS,
    ) -> None:
        """Arrange the data on a device; `memory_gb` bounds what is taken there, beyond one UE at a time.

        `test` is what evaluations will be asked with, and stays on the device where it fits; `metrics` are what is
        measured on it.
        `layerwise = False` keeps to the general engine, `chunk` bounds the UEs computed at once: both change speed and
        rounding only. `products` of "tf32" or "bf16", on a GPU, round their factors to about three digits.
        """
        self.device = torch.device(device)
        check_products(products, self.device, dtype, training.objective)
        self.training = training
        self.task = task.to(self.device, dtype)
        template = self.task.flat_template()
        samples = Samples.on(self.device, dtype, inputs=inputs, targets=targets, shards=shards)
        self.samples = replace(samples, mass=self.task.mass)
        if self.device.type == "cpu" and self.samples.inputs.nbytes * 4 <= _STORE_SHARE * memory_gb * 1e9:
            self.samples = self.samples.converted()  # a CPU reads numbers faster than it makes them of bytes
        check_model(self.task, self.samples.example(_TRIED)[0], self.samples.targets)
        self._chunk, self._products, self._metrics = chunk, products, metrics
        usable = memory_gb * 1e9 * _USABLE.get(self.device.type, 0.5)
        self._room = Room(usable - self.samples.bytes_beyond(inputs, targets))
        if self._room.free <= 0:
            data_gb = self.samples.nbytes / 1e9
            raise LearningError(f"learning.memory_gb is {memory_gb}; the data alone take {data_gb:.3f} GB, wanted more")
        chain = ChainEngine.choose(self.task, training, self.samples) if layerwise else None
        padding = _LITTLE_PADDING if self.device.type == "cpu" or not (chain and chain.dense) else _MOST_PADDING
        self._whole = Layout.of(self.samples.shards.sizes, padding)
        self._drawn = Layout.of(np.minimum(self.samples.shards.sizes, training.batch_size or 2**62), padding)
        self._engine: Engine = chain or GeneralEngine.choose(self.task, training, self.samples.one_ue(2))
        check_computes(products, self.device, lambda: try_one(self._engine, template, self.samples.one_ue(2)))
        self._store: Store | None = None
        whole = training.batch_size is None or test is not None
        self._packs = whole and self._room.set_aside(packed_bytes(self.samples, self._whole), share=_STORE_SHARE)
        self._gram = self._gram_that_fits() if self._packs else None
        self._replays: dict[int, Replay] = {}  # by number of groups
        self._evaluations: dict[tuple[float, int], EvaluationReplay] = {}  # by inner step and number of them
        self._pool: Pool | None = None
        self._tests = None if test is None else self._kept(test)

    @property
    def num_ues(self) -> int:
        """Number N of UEs with a shard."""
        return len(self.samples.shards.sizes)

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
        keep_per_ue: bool = False,
    ) -> CohortUpdates:
        """Mean update per group from `params` [P], or from one row per group [groups, P].

        Mini-batches are addressed by (seed, key, local step, role, UE): the same whoever else takes part.
        """
        params = params.to(self.device, self.samples.dtype)
        ues, groups = np.asarray(ues, dtype=np.int64), np.asarray(groups, dtype=np.int64)
        _refuse_empty(ues, self.samples.shards.sizes)
        shares = shares_of(groups, num_groups, weights)
        draws = self._draws(ues, streams, key)
        total = params.new_zeros(num_groups, params.shape[-1])
        losses = params.new_zeros(2, len(ues))
        kept = params.new_zeros(len(ues), params.shape[-1]) if keep_per_ue else None

        def add(at: IntArray, total: Tensor) -> Losses:
            start = params[torch.from_numpy(groups[at]).to(self.device)] if params.ndim == 2 else params
            own = None if kept is None else torch.empty_like(kept[: len(at)])
            sums = Sums.of(total, groups[at], shares[at], own)
            part = self._engine.updates(start, self._steps(ues, at, draws), sums)
            if kept is not None and own is not None:
                kept[torch.from_numpy(at).to(self.device)] = own
            return part

        layout = self._whole if draws is None else self._drawn
        self._pack(draws is None)

        def trial(bucket: int) -> Losses:
            return self._try_update(params, layout, bucket, keep_per_ue=keep_per_ue)

        with repeatable(self._products, self.device):
            replay = self._replay(params, num_groups, len(np.unique(ues)), trial) if kept is None else None
            if replay is not None:
                return _reported(*replay.run(params, ues, groups, shares), groups, shares, None)
            limit = self._limit(("updates", params.ndim, keep_per_ue), layout, trial)
            for at in layout.chunks(ues, groups, limit):
                part = add(at, total)
                losses[:, torch.from_numpy(at).to(self.device)] = torch.stack([part.loss, part.meta_loss])
        return _reported(total, losses, groups, shares, kept)

    def evaluate(self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1) -> Evaluation:
        """Losses and metrics of every UE with samples at `params` [P], before and after adaptation on its shard."""
        params = params.to(self.device, self.samples.dtype)
        samples = self._tests_on_device(test)
        training = replace(self.training, inner_lr=inner_lr, inner_steps=inner_steps)
        test_sizes, columns = samples.shards.sizes, columns_of(self._metrics)
        figures = params.new_full((len(columns), self.num_ues), torch.nan)

        def evaluated(ues: IntArray, most_tests: int) -> Tensor:
            own_tests = whole_batch(samples, ues, max(most_tests, 1))
            return self._figures(params, self._whole_batch(ues), own_tests, training)

        def trial(bucket: int) -> Tensor:
            return evaluated(self._largest(self._whole, bucket), int(test_sizes.max()))

        self._pack(True)
        ues = np.flatnonzero(self.samples.shards.sizes)
        with repeatable(self._products, self.device):
            replay = self._evaluation_replay(params, samples, training, trial)
            limit = self._limit(("evaluate", inner_steps), self._whole, trial)
            for at in self._whole.chunks(ues, np.zeros_like(ues), limit) if replay is None else ():
                own = ues[at]
                figures[:, torch.from_numpy(own).to(self.device)] = evaluated(own, int(test_sizes[own].max()))
            figures = figures if replay is None else replay.run(params)
        figures[len(LOSS_COLUMNS) :, torch.from_numpy(test_sizes == 0).to(self.device)] = torch.nan
        return Evaluation(dict(zip(columns, figures.double().cpu().numpy(), strict=True)))

    def _figures(self, params: Tensor, train: Batch, test: Batch, training: LocalTraining) -> Tensor:
        """All figures of a chunk, [columns, u]."""
        return figures_of(self._engine.evaluation(params, train, test, training), self._metrics)

    def _kept(self, test: TestData) -> tuple[TestData, Samples] | None:
        """Test samples that stay on the device, where they fit the memory."""
        samples = test.on(self.device, self.samples.dtype)
        need = samples.bytes_beyond(test.inputs, test.targets)
        return (test, samples) if self._room.set_aside(need, share=_STORE_SHARE) else None

    def _tests_on_device(self, test: TestData) -> Samples:
        if self._tests is not None and self._tests[0] is test:
            return self._tests[1]
        return test.on(self.device, self.samples.dtype)

    def _draws(self, ues: IntArray, streams: Streams, key: int) -> Draws:
        size = self.training.batch_size
        if size is None:
            return None
        sizes = self.samples.shards.sizes[ues]
        return [
            {
                role: drawn_index(member_draws(streams.at(f"batch/{role}/{step}", key), ues, size), sizes)
                for role in self.training.roles
            }
            for step in range(self.training.local_steps)
        ]

    def _steps(self, ues: IntArray, at: IntArray, draws: Draws) -> list[dict[str, Batch]]:
        """The batches of a chunk: one dictionary by role for each local step."""
        if draws is None:
            return [{"support": self._whole_batch(ues[at])}] * self.training.local_steps
        width = self._drawn.widths[int(self._drawn.bucket_of[ues[at[0]]])]
        counts = np.minimum(self.samples.shards.sizes[ues[at]], width)
        return [
            {role: self.samples.batch(ues[at], index[at, :width], counts) for role, index in step.items()}
            for step in draws
        ]

    def _pack(self, whole: bool) -> None:
        """Pack whole shards once, where they are used and memory was set aside for them."""
        if whole and self._store is None and self._packs:
            store, gram = Store.of(self.samples, self._whole), self._gram
            self._store = store if gram is None else store.with_grams(gram)

    def _gram_that_fits(self) -> Callable[[Batch], Tensor] | None:
        """What makes the inner products of inputs that lie beside the packed shards, if they are used and fit."""
        engine = self._engine
        if not isinstance(engine, ChainEngine) or engine.gram_bias is None or not self.training.adapts:
            return None
        fits = self._room.set_aside(gram_bytes(self.samples, self._whole), share=_STORE_SHARE)
        return engine.gram if fits else None

    def _recordable(self, kind: object, start: Tensor, trial: Trial) -> tuple[ChainEngine, Store] | None:
        """Engine and shards of what a GPU may record: full batches, from one model, each bucket whole in the memory."""
        engine, store = self._engine, self._store
        if not (start.is_cuda and start.ndim == 1 and store is not None and isinstance(engine, ChainEngine)):
            return None
        if not engine.recordable or self._chunk is not None:
            return None
        fits = (self._room.fits(kind, bucket, trial) >= len(own) for bucket, own in enumerate(store.layout.members))
        return (engine, store) if all(fits) else None

    def _replay(self, start: Tensor, num_groups: int, taking_part: int, trial: Trial) -> Replay | None:
        """A recorded round, where most UEs take part in full batches on a GPU."""
        if self.training.batch_size is not None or taking_part < LEAST_SHARE * self.num_ues:
            return None
        parts = self._recordable(("updates", 1, False), start, trial)
        if parts is None:
            return None
        if num_groups not in self._replays:
            self._pool = self._pool or Pool()
            self._replays[num_groups] = Replay.record(*parts, start, num_groups=num_groups, pool=self._pool)
        return self._replays[num_groups]

    def _evaluation_replay(
        self, start: Tensor, tests: Samples, training: LocalTraining, trial: Trial
    ) -> EvaluationReplay | None:
        """A recorded evaluation, where all UEs have samples, the test samples stay on the GPU, and metrics allow it."""
        if not all(metric.recordable for metric in self._metrics):
            return None
        if self._tests is None or self._tests[1] is not tests or not self.samples.shards.sizes.all():
            return None
        parts = self._recordable(("evaluate", training.inner_steps), start, trial)
        if parts is None:
            return None
        key = (training.inner_lr, training.inner_steps)
        if key not in self._evaluations:
            self._pool = self._pool or Pool()
            sizes, members = tests.shards.sizes, parts[1].layout.members
            batches = [whole_batch(tests, own, max(int(sizes[own].max()), 1)) for own in members]

            def evaluated(model: Tensor, train: Batch, test: Batch) -> Tensor:
                return self._figures(model, train, test, training)

            record = EvaluationReplay.record
            self._evaluations[key] = record(evaluated, parts[1], start, tests=batches, pool=self._pool)
        return self._evaluations[key]

    def _whole_batch(self, ues: IntArray) -> Batch:
        """Whole shards of UEs of one bucket."""
        if self._store is not None:
            return self._store.batch(ues)
        return whole_batch(self.samples, ues, self._whole.widths[int(self._whole.bucket_of[ues[0]])])

    def _limit(self, kind: object, layout: Layout, trial: Trial) -> Limit:
        """UEs per chunk of a bucket: what fits the memory by the measured need of one, or suits the caches."""

        def limit(bucket: int) -> int:
            if self._chunk is not None:
                return self._chunk
            samples = self._engine.preferred_samples
            if samples is None:
                return self._room.fits(kind, bucket, trial)
            return self._room.suits(kind, bucket, trial, widths=layout.widths, samples=samples)

        return limit

    def _largest(self, layout: Layout, bucket: int) -> IntArray:
        """The UE with most samples of a bucket, [1]."""
        own = layout.members[bucket]
        return own[[int(np.argmax(self.samples.shards.sizes[own]))]]

    def _try_update(self, params: Tensor, layout: Layout, bucket: int, *, keep_per_ue: bool) -> Losses:
        """Compute the update of one UE for nobody: the largest of a bucket, with its first samples."""
        ue, training = self._largest(layout, bucket), self.training
        if layout is self._whole:
            steps = [{"support": self._whole_batch(ue)}] * training.local_steps
        else:
            width = layout.widths[bucket]
            steps = [
                {role: whole_batch(self.samples, ue, width) for role in training.roles}
                for _ in range(training.local_steps)
            ]
        total = params.new_zeros(1, params.shape[-1])
        sums = Sums.of(total, np.zeros(1, dtype=np.int64), np.ones(1), torch.empty_like(total) if keep_per_ue else None)
        return self._engine.updates(params[:1] if params.ndim == 2 else params, steps, sums)


def _refuse_empty(ues: IntArray, sizes: IntArray) -> None:
    empty = ues[sizes[ues] == 0]
    if len(empty):
        raise LearningError(f"UE {int(empty[0])} takes part but its shard is empty; wanted at least one sample")


def _reported(
    total: Tensor, losses: Tensor, groups: IntArray, shares: FloatArray, per_ue: Tensor | None
) -> CohortUpdates:
    """Group figures on the host; this is where the device is waited for."""
    importance = torch.linalg.vector_norm(total, dim=1, dtype=torch.float64).square().cpu().numpy()
    wrong = np.flatnonzero(~np.isfinite(importance))
    if len(wrong):
        raise NonFiniteUpdateError(
            f"the update of group {wrong[0]} is not finite; lower learning.inner_lr or learning.outer_lr"
        )
    weighted = losses.double().cpu().numpy() * shares
    empty = np.bincount(groups, minlength=len(total)) == 0
    means = [np.where(empty, np.nan, np.bincount(groups, weights=w, minlength=len(total))) for w in weighted]
    return CohortUpdates(total, importance, means[0], means[1], per_ue)
