"""Stochastic rounding to levels of the largest magnitude in a bucket: unbiased, with a variance known beforehand.

A bucket of `d` numbers with largest magnitude `M` is rounded to `2 L + 1` levels `l M / L`, up or down at random so
that the mean is right. With `f_j` the fractional part of `x_j L / M` the variance is `sum_j (M / L)^2 f_j (1 - f_j)`,
at most `min(d / (4 L^2), sqrt(d) / L) |x|^2` (Alistarh et al., QSGD, 2017).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpfl.learning.faults import LearningError

_ROWS = 4


@dataclass(frozen=True)
class Levels:
    """`count` levels from `-M` to `M` at equal distances, with a scale `M` for every `bucket` numbers."""

    count: int
    bucket: int

    def __post_init__(self) -> None:
        if self.bucket < 1:
            raise LearningError(f"a bucket has {self.bucket} numbers; wanted at least 1")

    @cached_property
    def half(self) -> float:
        """L: distances between levels from 0 to M; 1.5 for four of them, none of which is 0."""
        return (self.count - 1) / 2

    def num_scales(self, n: int) -> int:
        """Scales of `n` numbers."""
        return -(-n // self.bucket)

    def coded(self, numbers: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Scales [u, buckets] in float32 and levels [u, n], from 0 to `count - 1`; `uniform` [u, n] rounds them."""
        scale, low, part = self._parted(numbers)
        low += uniform < part
        return scale, low.add_(self.half // 1).to(torch.uint8)

    def decoded(self, scale: Tensor, level: Tensor, dtype: torch.dtype) -> Tensor:
        """The numbers [u, n] of scales and levels."""
        numbers = level.to(dtype).sub_(self.half)
        self._multiply(numbers, (scale / self.half).to(dtype))
        return numbers

    def variance(self, numbers: Tensor) -> Tensor:
        """`E |decoded - numbers|^2` of each row, [u] in float64; on a CPU few rows at a time, which fit its caches."""
        parts = (numbers,) if numbers.is_cuda else torch.split(numbers, _ROWS)
        return torch.cat([self._variance(own) for own in parts])

    def _variance(self, numbers: Tensor) -> Tensor:
        scale, _, part = self._parted(numbers)
        spread = part.mul_(1 - part)
        sums = torch.cat([piece.sum(2, dtype=torch.float64) for piece in self._pieces(spread)], 1)
        return (sums * (scale.double() / self.half).square()).sum(1)

    def _parted(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scales, and each number's level below, counted from the middle, and its share of the way to the next."""
        scale = torch.cat([piece.abs().amax(2) for piece in self._pieces(numbers)], 1).float()
        steps = numbers.clone(memory_format=torch.contiguous_format)
        self._divide(steps, scale.clamp(min=torch.finfo(torch.float32).tiny).to(numbers.dtype))
        steps.mul_(self.half).clamp_(-self.half, self.half).add_(self.half % 1)
        low = steps.floor()
        return scale, low, steps.sub_(low)

    def _pieces(self, rows: Tensor) -> list[Tensor]:
        """Views of rows [u, n]: the full buckets [u, b, d], and what is left over [u, 1, r]."""
        full = rows.shape[1] // self.bucket
        whole = full * self.bucket
        views = rows[:, :whole].view(len(rows), full, self.bucket), rows[:, whole:].unsqueeze(1)
        return [view for view in views if view.shape[1] and view.shape[2]]

    def _multiply(self, rows: Tensor, factors: Tensor) -> None:
        for piece, factor in zip(self._pieces(rows), self._of_pieces(rows, factors), strict=True):
            piece.mul_(factor.unsqueeze(2))

    def _divide(self, rows: Tensor, divisors: Tensor) -> None:
        for piece, divisor in zip(self._pieces(rows), self._of_pieces(rows, divisors), strict=True):
            piece.div_(divisor.unsqueeze(2))

    def _of_pieces(self, rows: Tensor, scales: Tensor) -> list[Tensor]:
        full = rows.shape[1] // self.bucket
        return [part for part in (scales[:, :full], scales[:, full:]) if part.shape[1]]
