"""A round of full batches recorded once and replayed: on a GPU, small models wait for launches, not for arithmetic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.chain.engine import ChainEngine
from hpfl.learning.engine import Sums
from hpfl.learning.store import Store
from hpfl.rng import FloatArray, IntArray

LEAST_SHARE = 0.5  # of all UEs: a replay computes every UE, so it pays where most take part


@dataclass(frozen=True)
class Replay:
    """A recorded round of all UEs: write `start` and `matrices`, replay, read `total` and `losses`."""

    graph: torch.cuda.CUDAGraph
    start: Tensor  # [P]
    matrices: tuple[Tensor, ...]  # per bucket [groups, u]: each UE's share, zero for those that do not take part
    total: Tensor  # [groups, P]
    losses: Tensor  # [2, N] in bucket order
    place: IntArray  # [N]: where each UE's losses lie

    @staticmethod
    def record(engine: ChainEngine, store: Store, start: Tensor, *, num_groups: int, local_steps: int) -> "Replay":
        """Record one round over all buckets of a store."""
        matrices = tuple(start.new_zeros(num_groups, len(own)) for own in store.layout.members)
        total = start.new_zeros(num_groups, start.shape[-1])
        own_start = start.clone()

        def once() -> Tensor:
            total.zero_()
            parts = zip(store.packed, matrices, strict=True)
            return torch.cat([_losses(engine, own_start, batch, local_steps, Sums(total, m)) for batch, m in parts], 1)

        graph, losses = _recorded(once)
        place = np.argsort(np.concatenate(store.layout.members))
        return Replay(graph, own_start, matrices, total, losses, place)

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


def _losses(engine: ChainEngine, start: Tensor, batch: Batch, local_steps: int, sums: Sums) -> Tensor:
    steps: Sequence[dict[str, Batch]] = [{"support": batch}] * local_steps
    part = engine.updates(start, steps, sums)
    return torch.stack([part.loss, part.meta_loss])


def _recorded(once: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Run twice on a stream of its own, as libraries set themselves up, then record."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        once()
        once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = once()
    return graph, losses
