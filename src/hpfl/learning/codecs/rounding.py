"""Codec `rounding`: every number as one of a few levels, at random so that the mean is right."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.codecs.levels import Levels
from hpfl.learning.draws import Draws
from hpfl.learning.faults import LearningError
from hpfl.learning.message import Side, SideField
from hpfl.learning.uplink import UPLINKS, UplinkStep

_WIDTHS = (2, 4, 8)


@dataclass(frozen=True)
class Rounding(UplinkStep):
    """Levels of `bits` bits, `2 L + 1` with `L = 2^(bits - 1) - 1`, and a scale of 32 bits for every `bucket` numbers.

    Two bits have four levels, `-M`, `-M/3`, `M/3` and `M`.
    """

    bits: int = 8
    bucket: int = 512

    def __post_init__(self) -> None:
        if self.bits not in _WIDTHS:
            raise LearningError(f"rounding has {self.bits} bits a number; wanted 2, 4 or 8")
        assert self._levels  # refuses a bucket without numbers

    def length(self, n: int) -> int:
        """Nothing is left for a step behind."""
        return 0

    def side(self, n: int) -> tuple[SideField, ...]:
        """Scales, and a level for each number."""
        scales = SideField("scale", torch.float32, self._levels.num_scales(n), 32)
        return scales, SideField("level", torch.uint8, n, self.bits, below=self._levels.count)

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """Scales and levels of numbers [u, n]."""
        scale, level = self._levels.coded(numbers, draws.uniform32(numbers.shape[1]))
        return numbers[:, :0], {"scale": scale, "level": level}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """The levels times their scales."""
        return self._levels.decoded(side["scale"], side["level"], numbers.dtype)

    def variance(self, numbers: Tensor) -> Tensor:
        """`sum_j (M / L)^2 f_j (1 - f_j)`, [u]."""
        return self._levels.variance(numbers)

    @property
    def num_levels(self) -> int:
        """Levels of a number."""
        return self._levels.count

    @cached_property
    def _levels(self) -> Levels:
        return Levels(4 if self.bits == 2 else 2**self.bits - 1, self.bucket)


class RoundingChoice(Protocol):
    """What is written of it."""

    @property
    def bits(self) -> int: ...
    @property
    def bucket(self) -> int: ...


@UPLINKS.register("rounding", options="hpfl.learning.codecs.codec_options:RoundingOptions", codec=True)
def rounding(*, options: RoundingChoice) -> Rounding:
    """Numbers as levels of 2, 4 or 8 bits, rounded at random so that the mean is right."""
    return Rounding(options.bits, options.bucket)
