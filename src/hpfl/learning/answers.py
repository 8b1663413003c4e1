"""What a cohort is asked with and what it answers."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.learning.batches import Samples, Segments, ShardRows
from hpfl.learning.kept import Kept


@dataclass(frozen=True)
class CohortUpdates:
    """What the groups (edges) of a cohort send upward."""

    update: Tensor  # [groups, P]: weighted mean over a group's UEs of (w_start - w_end) / outer_lr, as it arrives
    importance: FloatArray  # [groups]: squared norm of each update
    loss: FloatArray  # [groups]: weighted mean of f_i(w); NaN for a group without UEs
    meta_loss: FloatArray  # [groups]: weighted mean of F_i(w), on the query batch
    per_ue: Tensor | None = None  # [n, P] in the order of `ues`, as they arrive, where asked for
    kept: Kept = field(default_factory=Kept)  # what the UEs keep now, in the order of `ues`
    shares: FloatArray | None = None  # [n]: each UE's weight in its group, beside `per_ue`
    noise: FloatArray | None = None  # [groups, C]: `sum_i share_i^2 var_i` of each chain that was foretold
    norms: FloatArray | None = None  # [n]: of the UEs' updates before they were clipped, where they were


@dataclass(frozen=True)
class TestData:
    """Test samples arranged as their shards say, shared by all evaluations of a run."""

    __test__ = False  # pytest would take the name for a test class

    inputs: Tensor
    targets: Tensor
    shards: Segments | ShardRows

    def on(self, device: torch.device, dtype: torch.dtype) -> Samples:
        """The same samples on a device."""
        return Samples.on(device, dtype, inputs=self.inputs, targets=self.targets, shards=self.shards)
