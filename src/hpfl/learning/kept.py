"""What UEs keep between rounds: rows of numbers, one for each UE, of its method, its uplink and its codec."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.arrays import IntArray


@dataclass(frozen=True)
class Kept:
    """What UEs keep between rounds, a row for each; None: nothing, or that of UEs which begin."""

    method: Tensor | None = None  # [n, S]: of the method, a private head for one
    uplink: Tensor | None = None  # [n, U]: of the uplink's steps, what was left unsent for one
    codec: Tensor | None = None  # [n, U]: the same of the codecs that they upload with

    def rows(self, at: IntArray) -> "Kept":
        """Those of some UEs."""
        return Kept(*(None if own is None else own[torch.from_numpy(at).to(own.device)] for own in self._all))

    def write(self, at: IntArray, rows: "Kept") -> None:
        """Put rows in place of those of some UEs."""
        for own, new in zip(self._all, rows._all, strict=True):
            if own is not None and new is not None:
                own[torch.from_numpy(at).to(own.device)] = new.to(own)

    def unwritten(self) -> "Kept":
        """Room for as many rows."""
        return Kept(*(None if own is None else torch.empty_like(own) for own in self._all))

    @property
    def _all(self) -> tuple[Tensor | None, ...]:
        return self.method, self.uplink, self.codec
