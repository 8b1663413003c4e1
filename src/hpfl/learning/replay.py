"""Rounds and evaluations recorded once and replayed: on a GPU, small models wait for launches, not for arithmetic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.batches import Batch
from hpfl.learning.blocks import BLOCK, blocks
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.engine import Sums
from hpfl.learning.packing import Store
from hpfl.learning.recording import recorded_graph

LEAST_SHARE = 0.5  # of all UEs: a replay computes every UE, so it pays where most take part


Evaluated = Callable[[Tensor, Batch, Batch], Tensor]
"""Figures [figures, u] of a model on training and test samples of a bucket."""


@dataclass
class Pool:
    """The memory that all recordings of a cohort share; they are replayed one after the other."""

    handle: Any = field(default_factory=torch.cuda.graph_pool_handle)


@dataclass(frozen=True)
class Replay:
    """A recorded round of all UEs: write `start` and `matrices`, replay, read `total` and `losses`."""

    graph: torch.cuda.CUDAGraph
    start: Tensor  # [P]
    matrices: tuple[Tensor, ...]  # per bucket [groups, u]: each UE's share, zero for those that do not take part
    total: Tensor  # [groups, P]
    losses: Tensor  # [2, N] in bucket order
    place: IntArray  # [N]: where each UE's losses lie
    block_total: Tensor | None  # [groups, P], held since the recording adds up there; None: there is one block

    @staticmethod
    def record(
        engine: ChainEngine, store: Store, start: Tensor, *, num_groups: int, pool: Pool, block_ues: int = BLOCK
    ) -> "Replay":
        """Record one round over all blocks of so many UEs and all buckets of a store."""
        matrices = tuple(start.new_zeros(num_groups, len(own)) for own in store.layout.members)
        total = start.new_zeros(num_groups, start.shape[-1])
        own_start, pieces = start.clone(), _pieces(store, block_ues)
        block_total = torch.empty_like(total) if len(pieces) > 1 else None

        def once() -> Tensor:
            losses: list[list[Tensor]] = [[] for _ in matrices]
            total.zero_()
            for block in pieces:
                into = total if block_total is None else block_total.zero_()
                for bucket, rows in block:
                    batch, matrix = store.packed[bucket].select(rows), matrices[bucket][:, rows[0] : rows[-1] + 1]
                    losses[bucket].append(_losses(engine, own_start, batch, Sums(into, matrix)))
                if block_total is not None:
                    total.add_(block_total)
            return torch.cat([piece for own in losses for piece in own], 1)

        graph, losses = recorded_graph(once, pool.handle)
        return Replay(graph, own_start, matrices, total, losses, _places(store), block_total)

    def run(self, start: Tensor, ues: IntArray, groups: IntArray, shares: FloatArray) -> tuple[Tensor, Tensor]:
        """Group sums [groups, P] and the losses [2, n] of the UEs that take part."""
        dense = np.zeros((self.total.shape[0], len(self.place)))
        dense[groups, self.place[ues]] = shares
        flat = torch.from_numpy(dense).to(self.total)
        for matrix, part in zip(self.matrices, torch.split(flat, [m.shape[1] for m in self.matrices], 1), strict=True):
            matrix.copy_(part)
        self.start.copy_(start)
        self.graph.replay()
        return self.total.clone(), self.losses[:, torch.from_numpy(self.place[ues]).to(flat.device)]


@dataclass(frozen=True)
class EvaluationReplay:
    """A recorded evaluation of all UEs: write `start`, replay, read `figures`."""

    graph: torch.cuda.CUDAGraph
    start: Tensor  # [P]
    figures: Tensor  # [figures, N] in bucket order
    place: IntArray  # [N]: where each UE's figures lie
    tests: Sequence[Batch]  # held, since the recording reads them where they lie

    @staticmethod
    def record(
        evaluated: Evaluated, store: Store, start: Tensor, *, tests: Sequence[Batch], pool: Pool
    ) -> "EvaluationReplay":
        """Record the evaluation of all buckets of a store with the test samples of each."""
        own_start = start.clone()

        def once() -> Tensor:
            pairs = zip(store.packed, tests, strict=True)
            return torch.cat([evaluated(own_start, *pair) for pair in pairs], 1)

        graph, figures = recorded_graph(once, pool.handle)
        return EvaluationReplay(graph, own_start, figures, _places(store), tests)

    def run(self, start: Tensor) -> Tensor:
        """Figures [figures, N] of all UEs."""
        self.start.copy_(start)
        self.graph.replay()
        return self.figures[:, torch.from_numpy(self.place).to(start.device)]


def _places(store: Store) -> IntArray:
    return np.argsort(np.concatenate(store.layout.members))


def _pieces(store: Store, block_ues: int) -> list[list[tuple[int, IntArray]]]:
    """For each block of UEs the buckets that it has UEs in, with their rows there, which lie side by side."""
    layout = store.layout
    parts = blocks(np.arange(len(layout.bucket_of)), block_ues)
    found = [
        [(bucket, np.flatnonzero(np.isin(own, part))) for bucket, own in enumerate(layout.members)] for part in parts
    ]
    return [[(bucket, rows) for bucket, rows in block if len(rows)] for block in found]


def _losses(engine: ChainEngine, start: Tensor, batch: Batch, sums: Sums) -> Tensor:
    steps: Sequence[dict[str, Batch]] = [{"support": batch}] * engine.training.whole_steps
    part = engine.updates(start, steps, sums)
    return torch.stack([part.loss, part.meta_loss])
