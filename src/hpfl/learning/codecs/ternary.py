"""Codec `ternary`: every number as -M, 0 or M, at random so that the mean is right; five go into a byte."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Protocol

import torch
from torch import Tensor

from hpfl.learning.codecs.levels import Levels
from hpfl.learning.draws import Draws
from hpfl.learning.message import Side, SideField
from hpfl.learning.uplink import UPLINKS, UplinkStep

_FIVE = 5  # digits of base 3 in a byte: 3^5 = 243
_DIGITS = torch.tensor(list(product(range(3), repeat=_FIVE)), dtype=torch.uint8)
_WEIGHTS = torch.tensor([3**place for place in reversed(range(_FIVE))], dtype=torch.uint8)


@dataclass(frozen=True)
class Ternary(UplinkStep):
    """Three levels (`L = 1`), 8 bits for every five numbers, and a scale of 32 bits for every `bucket` numbers."""

    bucket: int = 512

    def __post_init__(self) -> None:
        assert self._levels  # refuses a bucket without numbers

    def length(self, n: int) -> int:
        """Nothing is left for a step behind."""
        return 0

    def side(self, n: int) -> tuple[SideField, ...]:
        """Scales, and bytes of five numbers each."""
        scales = SideField("scale", torch.float32, self._levels.num_scales(n), 32)
        return scales, SideField("five", torch.uint8, -(-n // _FIVE), 8, below=len(_DIGITS))

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """Scales and packed levels of numbers [u, n]."""
        scale, level = self._levels.coded(numbers, draws.uniform32(numbers.shape[1]))
        padded = torch.nn.functional.pad(level, (0, -level.shape[1] % _FIVE))
        padded = padded.view(len(level), padded.shape[1] // _FIVE, _FIVE)
        five = (padded * _WEIGHTS.to(padded.device)).sum(2, dtype=torch.uint8)
        return numbers[:, :0], {"scale": scale, "five": five}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """The levels times their scales."""
        five = side["five"]
        digits = _DIGITS.to(numbers.device).index_select(0, five.flatten().int())
        level = digits.view(len(five), five.shape[1] * _FIVE)[:, :n]
        return self._levels.decoded(side["scale"], level, numbers.dtype)

    def variance(self, numbers: Tensor) -> Tensor:
        """`sum_j M |x_j| - x_j^2`, [u]."""
        return self._levels.variance(numbers)

    @property
    def num_levels(self) -> int:
        """Levels of a number."""
        return self._levels.count

    @cached_property
    def _levels(self) -> Levels:
        return Levels(3, self.bucket)


class TernaryChoice(Protocol):
    """What is written of it."""

    @property
    def bucket(self) -> int: ...


@UPLINKS.register("ternary", options="hpfl.learning.codecs.codec_options:TernaryOptions", codec=True)
def ternary(*, options: TernaryChoice) -> Ternary:
    """Numbers as minus, zero or plus the largest of their bucket, at random so that the mean is right; 1.6 bits."""
    return Ternary(options.bucket)
