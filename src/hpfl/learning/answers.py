"""What a cohort is asked with and what it answers."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.batches import Samples, Segments


@dataclass(frozen=True)
class Kept:
    """What UEs keep between rounds, a row for each; None: nothing, or that of UEs which begin."""

    method: Tensor | None = None  # [n, S]: of the method, a private head for one
    uplink: Tensor | None = None  # [n, U]: of the uplink's steps, what was left unsent for one

    def rows(self, at: IntArray) -> "Kept":
        """Those of some UEs."""
        return Kept(*(None if own is None else own[torch.from_numpy(at).to(own.device)] for own in self._both))

    def write(self, at: IntArray, rows: "Kept") -> None:
        """Put rows in place of those of some UEs."""
        for own, new in zip(self._both, rows._both, strict=True):
            if own is not None and new is not None:
                own[torch.from_numpy(at).to(own.device)] = new.to(own)

    def unwritten(self) -> "Kept":
        """Room for as many rows."""
        return Kept(*(None if own is None else torch.empty_like(own) for own in self._both))

    @property
    def _both(self) -> tuple[Tensor | None, Tensor | None]:
        return self.method, self.uplink


@dataclass(frozen=True)
class CohortUpdates:
    """What the groups (edges) of a cohort send upward."""

    update: Tensor  # [groups, P]: weighted mean over a group's UEs of (w_start - w_end) / outer_lr, as it arrives
    importance: FloatArray  # [groups]: squared norm of each update
    loss: FloatArray  # [groups]: weighted mean of f_i(w); NaN for a group without UEs
    meta_loss: FloatArray  # [groups]: weighted mean of F_i(w), on the query batch
    per_ue: Tensor | None = None  # [n, P] in the order of `ues`, as they arrive, where asked for
    kept: Kept = field(default_factory=Kept)  # what the UEs keep now, in the order of `ues`


@dataclass(frozen=True)
class TestData:
    """Test samples arranged as their shards say, shared by all evaluations of a run."""

    __test__ = False  # pytest would take the name for a test class

    inputs: Tensor
    targets: Tensor
    shards: Segments

    def on(self, device: torch.device, dtype: torch.dtype) -> Samples:
        """The same samples on a device."""
        return Samples.on(device, dtype, inputs=self.inputs, targets=self.targets, shards=self.shards)
