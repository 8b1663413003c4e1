"""Room for what many UEs keep, taken again once nobody holds what was written to it: no round makes its pages anew."""

import sys
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LARGE_BYTES = 4_000_000
_MOST = 2  # a round reads what the last one wrote, and writes anew


@dataclass(eq=False)
class _Room:
    array: NDArray[Any]
    unused: int = 0  # how often it is referred to when no tensor lies in it

    @property
    def count(self) -> int:
        return sys.getrefcount(self.array)


@dataclass
class Rooms:
    """Arrays that serve again."""

    held: list[_Room] = field(default_factory=list)

    def like(self, own: Tensor) -> Tensor:
        """Room for as many numbers, not written to yet."""
        if own.is_cuda or own.nbytes < _LARGE_BYTES:
            return torch.empty_like(own)
        size, dtype = prod(own.shape), own[:0].numpy().dtype
        rooms, self.held = self.held, []  # nobody else finds them meanwhile
        free = [room for room in rooms if room.count == room.unused]
        room = next((room for room in free if room.array.dtype == dtype and len(room.array) >= size), None)
        if room is None:
            room = _Room(np.empty(size, dtype=dtype))
            room.unused = room.count
        found = torch.from_numpy(room.array)[:size]  # refers to the array as long as anybody sees it
        self.held = [room, *(other for other in rooms if other is not room and other not in free)][:_MOST]
        return found.view(own.shape)
