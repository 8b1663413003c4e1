"""Many UEs at once: chunks that fit a memory budget, sums per edge, and figures per UE.

cohort = Cohort(task, LocalTraining(inner_lr=0.03, outer_lr=0.07), inputs=x, targets=y, shards=shards)
updates = cohort.updates(w, ues=ues, groups=edge_of_ue[ues], num_groups=K, streams=streams, key=round)
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.answers import CohortUpdates, TestData
from hpfl.learning.batches import Batch, Samples, Segments, ShardRows
from hpfl.learning.blocks import BLOCK, blocks
from hpfl.learning.check import check_model
from hpfl.learning.coding import UNCODED, Coding
from hpfl.learning.cohort_round import Answer, BlockSums, CohortRound, Request, reported
from hpfl.learning.deferred import Deferred
from hpfl.learning.draws import Draws
from hpfl.learning.engine import Sums, try_one
from hpfl.learning.engine_choice import engine_for, gram, look_up, tabling
from hpfl.learning.evaluation import Evaluation
from hpfl.learning.faults import LearningError
from hpfl.learning.kept import Kept
from hpfl.learning.local_batches import LocalBatches
from hpfl.learning.method import Method, is_objective, roles_of
from hpfl.learning.metrics import DEFAULT_METRICS, LOSS_COLUMNS, BoundMetric, columns_of, figures_of
from hpfl.learning.objective import LocalTraining
from hpfl.learning.packing import Layout, Limit, whole_batch
from hpfl.learning.placement import Placement, converted, per_ue_bytes, refuse_empty, room_beside
from hpfl.learning.precision import Products, check_computes, check_products, repeatable
from hpfl.learning.room import Trial
from hpfl.learning.rooms import Rooms
from hpfl.learning.sending import Sending
from hpfl.learning.shared import SHARED_CHUNKS
from hpfl.learning.task import Task
from hpfl.learning.uplink import IDENTITY, Uplink
from hpfl.rng import Streams

_TRIED = 4  # samples that a model is tried with


class Cohort:
    """The UEs of a run with their data on a device; everything else comes in with each call."""

    def __init__(
        self,
        task: Task,
        training: LocalTraining,
        *,
        inputs: Tensor,
        targets: Tensor,
        shards: Segments | ShardRows,
        test: TestData | None = None,
        method: Method | None = None,
        uplink: Uplink = IDENTITY,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        memory_gb: float = 4.0,
        layerwise: bool = True,
        chunk: int | None = None,
        block_ues: int = BLOCK,
        products: Products = "full",
        metrics: tuple[BoundMetric, ...] = DEFAULT_METRICS,
    ) -> None:
        """Arrange the data on a device; `memory_gb` bounds what is taken there, beyond one UE at a time.

        `method` and `uplink` are the UE's side of a round; without, it is the objective that `training` names, and
        updates arrive as they are. `test` is what evaluations will be asked with, and stays on the device where it
        fits; `metrics` are measured on it. `layerwise = False` keeps to the general engine, `chunk` bounds the UEs
        computed at once, `block_ues` those whose sums are formed apart: all three change speed and rounding only.
        `products` of "tf32" or "bf16", on a GPU, round their factors to about three digits.
        """
        self._device = torch.device(device)
        if method is not None and is_objective(method):
            training, method = method.as_objective(training), None
        check_products(products, self.device, dtype, training.objective)
        self.training, self.task = training, task.to(self.device, dtype)
        template = self.task.flat_template()
        samples = Samples.on(self.device, dtype, inputs=inputs, targets=targets, shards=shards)
        samples = converted(replace(samples, mass=self.task.mass), memory_gb)
        check_model(self.task, samples.example(_TRIED)[0], samples.targets)
        self.chunk, self.block_ues, self.products, self.metrics = chunk, block_ues, products, metrics
        room = room_beside(samples, memory_gb, inputs, targets)
        self.engine, padding = engine_for(self.task, training, samples, method, layerwise=layerwise)
        self.data = Placement(samples, room, padding=padding, batch_size=training.batch_size, block_ues=block_ues)
        check_computes(products, self.device, lambda: try_one(self.engine, template, samples.one_ue(2)))
        whole = training.batch_size is None or test is not None
        self.data.reserve(whole=whole, gram=gram(self.engine, training), test=test)
        self.data.share(tabling(self.engine, training, products))
        self.sending = Sending.of(self.task.spec, method, uplink, self.device)
        self.batches = LocalBatches(self.data, training, roles_of(method, training))
        self.rooms = Rooms()

    @property
    def num_ues(self) -> int:
        """Number N of UEs with a shard."""
        return self.data.num_ues

    @property
    def device(self) -> torch.device:
        """Where the data and all updates lie."""
        return self._device

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
        """Mean update per group from `params` [P], or from one row per group [groups, P].

        Mini-batches are addressed by (seed, key, local step, role, UE): the same whoever else takes part.
        """
        params = params.to(self.device, self.data.samples.dtype)
        asked = {"num_groups": num_groups, "weights": weights, "streams": streams, "key": key, "coding": coding}
        request = Request.of(params, ues, groups, **asked)
        refuse_empty(request.ues, self.data.samples.shards.sizes)
        rows = self.sending.rows_of(kept, params, request.groups, coding)
        answer = Answer.empty(request, rows, self.rooms, keep_per_ue=keep_per_ue)
        with repeatable(self.products, self.device):
            work, limit = self._work(request, rows, answer, len(request.ues))
            work.run(limit)
        return reported(request, answer)

    def part_updates(
        self, request: Request, kept: Kept | None, *, keep_per_ue: bool, all_asked: int
    ) -> tuple[list[BlockSums], Answer]:
        """Sums of each block of a part of `all_asked` UEs, and what there is of its UEs: for those who add up."""
        rows = self.sending.rows_of(kept, request.params, request.groups, request.coding)
        answer = Answer.empty(request, rows, self.rooms, keep_per_ue=keep_per_ue, sums=False)
        with repeatable(self.products, self.device):
            work, limit = self._work(request, rows, answer, all_asked)
            return list(work.block_sums(limit)), answer

    def _work(self, request: Request, rows: Kept, answer: Answer, all_asked: int) -> tuple[CohortRound, Limit]:
        """The computation of a request out of one of `all_asked` UEs, and its chunks: a part has those of the whole."""
        self.pack()
        per_ue, coding, params = answer.per_ue is not None, request.coding, request.params
        look_up(self.engine, self.data.samples.table, params)
        errors = 0 if rows.codec is None else rows.codec.shape[1]
        beside = self._beside(all_asked, keep_per_ue=per_ue, errors=errors)
        trial = self.update_trial(params, keep_per_ue=per_ue, coding=coding)
        limit = self._limit(("updates", params.ndim, per_ue, coding.names), self.batches.layout, trial, beside)
        return CohortRound(self.engine, self.batches, self.sending, request, rows, answer, self.block_ues), limit

    def evaluate(
        self, params: Tensor, test: TestData, *, inner_lr: float, inner_steps: int = 1, kept: Kept | None = None
    ) -> Evaluation:
        """Losses and metrics of every UE with samples at `params` [P], and at its personal model."""
        figures = self.figures_at(params, test, np.arange(self.num_ues), self.adapting(inner_lr, inner_steps), kept)
        return Evaluation(dict(zip(columns_of(self.metrics), figures, strict=True)))

    def figures_at(
        self, params: Tensor, test: TestData, ues: IntArray, training: LocalTraining, kept: Kept | None
    ) -> FloatArray:
        """Figures [columns, n] of UEs in the order of their numbers, block by block; `kept` has a row for each."""
        params = params.to(self.device, self.data.samples.dtype)
        samples = self.data.tests(test)
        rows = self.sending.rows_of(kept, params, np.zeros(len(ues), dtype=np.int64))
        figures = params.new_full((len(columns_of(self.metrics)), len(ues)), torch.nan)
        self.data.pack()
        look_up(self.engine, self.data.samples.table, params)
        there = np.flatnonzero(self.data.samples.shards.sizes[ues])
        trial, kind = self.evaluation_trial(params, samples, training), ("evaluate", training.inner_steps)
        with repeatable(self.products, self.device):
            limit = self._limit(kind, self.data.whole, trial)
            for block in blocks(ues[there], self.block_ues):
                for at in self.data.whole.chunks(ues[there[block]], np.zeros_like(block), limit):
                    own = there[block[at]]
                    found = self._evaluated(params, ues[own], samples, training, rows.rows(own).method)
                    figures[:, torch.from_numpy(own).to(self.device)] = found
        return self.on_host(figures, samples, ues)

    def adapting(self, inner_lr: float, inner_steps: int) -> LocalTraining:
        """The local training of an evaluation."""
        return replace(self.training, inner_lr=inner_lr, inner_steps=inner_steps)

    def pack(self) -> None:
        """Pack whole shards where updates are computed on them."""
        if self.training.batch_size is None:
            self.data.pack()

    def update_trial(self, params: Tensor, *, keep_per_ue: bool, coding: Coding = UNCODED) -> Trial:
        """Computes the update of one UE for nobody: the largest of a bucket, with its first samples."""

        def trial(bucket: int) -> object:
            start, steps = params[:1] if params.ndim == 2 else params, self.batches.of_largest(bucket)
            total, one = params.new_zeros(1, params.shape[-1]), np.zeros(1, dtype=np.int64)
            clip = None if coding.clip is None else np.ones(1)
            per_ue = torch.empty_like(total) if keep_per_ue else None
            sums = Sums.of(total, one, np.ones(1), per_ue, clip=clip, deferred=Deferred())
            kept, draws = self.sending.first_rows(start, one), Draws(Streams(0), 0, one, self.device)
            return self.sending.compute(self.engine, start, steps, sums, kept, draws, coding)

        return trial

    def evaluation_trial(self, params: Tensor, tests: Samples, training: LocalTraining) -> Trial:
        """Evaluates the largest UE of a bucket, with as many test samples as any has."""
        most = int(tests.shards.sizes.max())

        def trial(bucket: int) -> object:
            ue = self.data.largest(self.data.whole, bucket)
            return self._evaluated(params, ue, tests, training, most=most)

        return trial

    def _evaluated(
        self,
        params: Tensor,
        ues: IntArray,
        tests: Samples,
        training: LocalTraining,
        kept: Tensor | None = None,
        *,
        most: int = 0,
    ) -> Tensor:
        """Figures [figures, u] of UEs of one bucket."""
        own_tests = whole_batch(tests, ues, max(most or int(tests.shards.sizes[ues].max()), 1))
        rows = None if kept is None else kept.to(params)
        return self.figures(params, self.data.whole_batch(ues), own_tests, training, rows)

    def figures(
        self, params: Tensor, train: Batch, test: Batch, training: LocalTraining, kept: Tensor | None = None
    ) -> Tensor:
        """All figures [columns, u] of a chunk on its training and test samples."""
        return figures_of(self.engine.evaluation(params, train, test, training, kept), self.metrics)

    def evaluation_of(self, figures: Tensor, tests: Samples) -> Evaluation:
        """Figures [columns, N] of all UEs on the host, by name."""
        found = self.on_host(figures, tests, np.arange(self.num_ues))
        return Evaluation(dict(zip(columns_of(self.metrics), found, strict=True)))

    def on_host(self, figures: Tensor, tests: Samples, ues: IntArray) -> FloatArray:
        """Figures [columns, n] of UEs on the host; those on test samples are NaN for a UE without."""
        without = torch.from_numpy(tests.shards.sizes[ues] == 0).to(figures.device)
        figures[len(LOSS_COLUMNS) :, without] = torch.nan
        return np.asarray(figures.double().cpu().numpy())

    def _beside(self, count: int, *, keep_per_ue: bool, errors: int = 0) -> int:
        """Bytes of what a call returns of each UE; refused where that does not fit the memory."""
        numbers = sum(self.sending.numbers_kept) + errors + (self.task.spec.num_parameters if keep_per_ue else 0)
        need, free = per_ue_bytes(count, numbers, self.data.samples.dtype), self.data.room.free
        if need >= free:
            raise LearningError(
                f"{numbers} numbers of each of {count} UEs take {need / 1e9:.3g} GB at once, where learning.memory_gb "
                f"leaves {free / 1e9:.3g} GB; wanted fewer UEs at once, or more memory"
            )
        return need

    def _limit(self, kind: object, layout: Layout, trial: Trial, beside: int = 0) -> Limit:
        """UEs per chunk of a bucket: what fits the memory by the measured need of one, or suits the caches."""

        def limit(bucket: int) -> int:
            if self.chunk is not None:
                return self.chunk
            samples, room = self.engine.preferred_samples, self.data.room.beside(beside)
            if self.engine.preferred_ues is not None:
                return min(self.engine.preferred_ues, room.fits(kind, bucket, trial))
            if samples is None:
                return room.fits(kind, bucket, trial)
            shared = 1 if self.data.samples.table is None else SHARED_CHUNKS
            return room.suits(kind, bucket, trial, widths=layout.widths, samples=samples * shared)

        return limit
