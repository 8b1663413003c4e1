"""The batches of UEs' local steps: drawn by address, in epochs or whole shards, as rectangles for a chunk of UEs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import IntArray
from hpfl.learning.batches import Batch, drawn_index, member_draws
from hpfl.learning.epochs import num_steps, shuffled, slices
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.packing import Layout, whole_batch
from hpfl.learning.placement import Placement
from hpfl.rng import Streams


@dataclass(frozen=True)
class DrawnStep:
    """The samples of one local step of n UEs: by role [n, batch_size], of which the first `counts` [n] count."""

    index: dict[str, IntArray]
    counts: IntArray


Drawn = list[DrawnStep] | None
"""All local steps; None for full batches."""


@dataclass(frozen=True)
class Stack(Sequence[dict[str, Batch]]):
    """The batches of all local steps of n UEs in one piece."""

    batches: dict[str, Batch]  # by role, [S, n, ...]
    counts: IntArray  # [S, n]: samples that count
    numbers: list[int]  # of each step, its place in the stack
    order: IntArray | None  # the UEs' places in the chunk they were asked for in; None: their own

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, step: Any) -> Any:
        """A step by role."""
        place = self.numbers[step]
        return {role: own.each(lambda part: part[place]) for role, own in self.batches.items()}


@dataclass(frozen=True)
class LocalBatches:
    """Which samples UEs use in their local steps."""

    data: Placement
    training: LocalTraining
    roles: Sequence[Role]

    @property
    def layout(self) -> Layout:
        """The rectangles that batches come in."""
        return self.data.whole if self.training.batch_size is None else self.data.drawn

    def drawn(self, ues: IntArray, streams: Streams, key: int) -> Drawn:
        """Draws addressed by (seed, key, local step or epoch, role, UE)."""
        size = self.training.batch_size
        if size is None:
            return None
        sizes = self.data.samples.shards.sizes[ues]
        if self.training.in_epochs:
            return self._epochs(ues, sizes, streams, key)
        return [
            DrawnStep(
                {
                    role: drawn_index(member_draws(streams.at(f"batch/{role}/{step}", key), ues, size), sizes)
                    for role in self.roles
                },
                np.minimum(sizes, size),
            )
            for step in range(self.training.local_steps)
        ]

    def _epochs(self, ues: IntArray, sizes: IntArray, streams: Streams, key: int) -> list[DrawnStep]:
        """Shards in orders of their own, cut into batches; a UE that has taken all of its steps counts no sample."""
        size, epochs = self.training.batch_size, self.training.local_epochs
        assert size is not None
        orders = {
            role: [shuffled(streams.at(f"epoch/{role}/{number}", key), ues, sizes) for number in range(epochs)]
            for role in self.roles
        }
        cut = {role: slices(own, sizes, size) for role, own in orders.items()}
        steps = range(int(num_steps(sizes, size, epochs).max(initial=0)))
        return [
            DrawnStep({role: own[step][0] for role, own in cut.items()}, cut[self.roles[0]][step][1]) for step in steps
        ]

    def of_chunk(self, ues: IntArray, at: IntArray, drawn: Drawn) -> list[dict[str, Batch]]:
        """The batches of a chunk: one dictionary by role for each local step that any of its UEs takes."""
        if drawn is None:
            return [{"support": self.data.whole_batch(ues[at])}] * self.training.whole_steps
        samples, layout = self.data.samples, self.data.drawn
        width = layout.widths[int(layout.bucket_of[ues[at[0]]])]
        return [
            {role: samples.batch(ues[at], index[at, :width], step.counts[at]) for role, index in step.index.items()}
            for step in drawn
            if step.counts[at].any()
        ]

    def stacked(self, ues: IntArray, at: IntArray, drawn: Drawn) -> "Stack":
        """The same as one stack, UEs that take more steps before those that take fewer."""
        own = ues[at]
        if drawn is None:
            stack = {"support": self.data.whole_batch(own).each(lambda part: part[None])}
            return Stack(stack, self.data.samples.shards.sizes[own][None], [0] * self.training.whole_steps, None)
        width = self.data.drawn.widths[int(self.data.drawn.bucket_of[own[0]])]
        steps = [step for step in drawn if step.counts[at].any()]
        counts = np.stack([step.counts[at] for step in steps])
        order = np.argsort(-np.count_nonzero(counts, axis=0), kind="stable")
        counts, shape = counts[:, order], (len(steps), len(own))
        found: dict[str, Batch] = {}
        for role in self.roles:
            index = np.stack([step.index[role][at[order], :width] for step in steps])
            flat = index.reshape(-1, width)
            batch = self.data.samples.batch(np.tile(own[order], len(steps)), flat, counts.reshape(-1))
            found[role] = batch.each(lambda part: part.view(*shape, *part.shape[1:]))
        same = np.array_equal(order, np.arange(len(order)))
        return Stack(found, counts, list(range(len(steps))), None if same else order)

    def of_largest(self, bucket: int) -> list[dict[str, Batch]]:
        """The batches of the largest UE of a bucket, of its first samples."""
        training, ue = self.training, self.data.largest(self.layout, bucket)
        if training.batch_size is None:
            return [{"support": self.data.whole_batch(ue)}] * training.whole_steps
        width, steps = self.layout.widths[bucket], training.local_steps
        if training.in_epochs:
            own = self.data.samples.shards.sizes[self.layout.members[bucket]]
            steps = int(num_steps(own, training.batch_size, training.local_epochs).max())
        return [{role: whole_batch(self.data.samples, ue, width) for role in self.roles} for _ in range(steps)]
