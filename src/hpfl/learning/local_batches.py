"""The batches of UEs' local steps: drawn by address or whole shards, as rectangles for a chunk of UEs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpfl.arrays import IntArray
from hpfl.learning.batches import Batch, drawn_index, member_draws
from hpfl.learning.objective import LocalTraining, Role
from hpfl.learning.packing import Layout, whole_batch
from hpfl.learning.placement import Placement
from hpfl.rng import Streams

Drawn = list[dict[str, IntArray]] | None
"""Per local step and role: samples [n, batch_size]; None for full batches."""


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
        """Draws addressed by (seed, key, local step, role, UE)."""
        size = self.training.batch_size
        if size is None:
            return None
        sizes = self.data.samples.shards.sizes[ues]
        return [
            {
                role: drawn_index(member_draws(streams.at(f"batch/{role}/{step}", key), ues, size), sizes)
                for role in self.roles
            }
            for step in range(self.training.local_steps)
        ]

    def of_chunk(self, ues: IntArray, at: IntArray, drawn: Drawn) -> list[dict[str, Batch]]:
        """The batches of a chunk: one dictionary by role for each local step."""
        if drawn is None:
            return [{"support": self.data.whole_batch(ues[at])}] * self.training.local_steps
        samples, layout = self.data.samples, self.data.drawn
        width = layout.widths[int(layout.bucket_of[ues[at[0]]])]
        counts = np.minimum(samples.shards.sizes[ues[at]], width)
        return [
            {role: samples.batch(ues[at], index[at, :width], counts) for role, index in step.items()} for step in drawn
        ]

    def of_largest(self, bucket: int) -> list[dict[str, Batch]]:
        """The batches of the largest UE of a bucket, of its first samples."""
        ue, steps = self.data.largest(self.layout, bucket), self.training.local_steps
        if self.training.batch_size is None:
            return [{"support": self.data.whole_batch(ue)}] * steps
        width = self.layout.widths[bucket]
        return [{role: whole_batch(self.data.samples, ue, width) for role in self.roles} for _ in range(steps)]
