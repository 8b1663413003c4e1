"""Draws of an uplink's steps: addressed by (seed, purpose, key, member), whoever else is coded at the same time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.batches import member_draws
from hpfl.rng import Stream, Streams, normal_quantiles

_AT_ONCE = 1 << 20  # words drawn in one go, so that what lies beside the result stays small


@dataclass(frozen=True)
class Draws:
    """The draws of some UEs in one round: addressed by (seed, purpose, key, UE), whoever else is in the chunk."""

    streams: Streams
    key: int
    ues: IntArray  # [u]
    device: torch.device
    purpose: str = "uplink"

    def of(self, name: str) -> "Draws":
        """Draws of their own under a further name."""
        return replace(self, purpose=f"{self.purpose}/{name}")

    def uniform(self, count: int) -> Tensor:
        """`count` numbers of each UE, uniform in [0, 1), [u, count] in float64; the same when asked again."""
        return self._filled(count, lambda stream, ues: member_draws(stream, ues, count))

    def uniform32(self, count: int) -> Tensor:
        """The same in float32, multiples of 2^-24: half the time and memory, where a probability needs no more."""
        return self._filled(count, lambda stream, ues: member_draws(stream, ues, count, single=True), torch.float32)

    def normal(self, count: int) -> Tensor:
        """The same in float64, standard normal."""
        return self._filled(count, lambda stream, ues: normal_quantiles(member_draws(stream, ues, count)))

    def _filled(
        self, count: int, drawn: Callable[[Stream, IntArray], NDArray[Any]], dtype: torch.dtype = torch.float64
    ) -> Tensor:
        result, stream = torch.empty(len(self.ues), count, dtype=dtype), self.streams.at(self.purpose, self.key)
        step, into = max(_AT_ONCE // max(count, 1), 1), result.numpy()
        for first in range(0, len(self.ues), step):
            into[first : first + step] = drawn(stream, self.ues[first : first + step])
        return result.to(self.device)
