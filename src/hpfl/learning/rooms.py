"""Room for what many UEs keep, taken again once nobody holds what was written to it: no round makes its pages anew."""

import sys
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LARGE_BYTES = 4_000_000
_MOST = 2  # a round reads what the last one wrote, and writes anew


@dataclass
class Rooms:
    """Arrays, and how often each is referred to when no tensor lies in it."""

    held: list[tuple[NDArray[Any], int]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def like(self, own: Tensor) -> Tensor:
        """Room for as many numbers, not written to yet."""
        if own.is_cuda or own.nbytes < _LARGE_BYTES:
            return torch.empty_like(own)
        with self.lock:
            return self._free(prod(own.shape), own[:0].numpy().dtype).view(own.shape)

    def _free(self, size: int, dtype: np.dtype[Any]) -> Tensor:
        unused = [place for place in range(len(self.held)) if self._count(place) == self.held[place][1]]
        for place in unused:
            if self.held[place][0].dtype == dtype and len(self.held[place][0]) >= size:
                return torch.from_numpy(self.held[place][0])[:size]  # refers to the array as long as it is used
        self.held = [each for place, each in enumerate(self.held) if place not in unused][: _MOST - 1]
        self.held.append((np.empty(size, dtype=dtype), 0))
        unused_count = self._count(-1)
        self.held[-1] = (self.held[-1][0], unused_count)
        return torch.from_numpy(self.held[-1][0])

    def _count(self, place: int) -> int:
        return sys.getrefcount(self.held[place][0])
