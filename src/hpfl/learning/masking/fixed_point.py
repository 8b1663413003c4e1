"""Numbers as levels, and sums of levels: whole numbers, so that sums are exact in any order and modulo any 2^w.

`count` levels lie at equal distances from `-M` to `M`; with `L = (count - 1) / 2` the value of level `l`, from 0 to
`count - 1`, is `(l - L) M / L`. A number between two levels becomes one of them at random, so that the mean is right;
its variance is `g^2 f (1 - f)` with `g = M / L` and `f` the share of the way. A UE of weight `n` adds `n l`. All UEs of
a cell with a weight of `W` at most add up to `(count - 1) W` at most, which takes `w = ceil(log2((count - 1) W + 1))`
bits a number: `ceil(log2(2 L W + 1))`. Nothing wraps, for a sum below 2^w is its own remainder.
"""

import torch
from torch import Tensor

from hpfl.learning.faults import LearningError

MOST_WORD_BITS = 62
"""Words of a sum: twice one fits a signed number of 64 bits."""


def num_levels(bits: int) -> int:
    """Levels of numbers with so many bits: `2 L + 1` with `L = 2^(bits - 1) - 1`."""
    return (1 << bits) - 1


def word_bits(count: int, most_weight: int) -> int:
    """Bits `w` of a word that holds every sum of `count` levels with weights that add up to `most_weight` at most."""
    bits = ((count - 1) * most_weight).bit_length()
    if most_weight < 1 or bits > MOST_WORD_BITS:
        raise LearningError(
            f"{count} levels and a total weight of up to {most_weight} in a cell take words of {bits} bits; wanted a "
            f"weight of at least 1, and at most {MOST_WORD_BITS} bits"
        )
    return bits


def levels(numbers: Tensor, scale: Tensor, count: int, uniform: Tensor) -> Tensor:
    """Levels int64 [u, n] of numbers [u, n] between `-scale` and `scale`, which are broadcast; `uniform` rounds them.

    What lies beyond becomes the last level: whoever calls has scaled it down, or counts it as clipped.
    """
    half = (count - 1) / 2
    steps = (numbers.to(torch.float64) * (half / scale.to(torch.float64))).clamp_(-half, half).add_(half)
    low = steps.floor()
    return low.to(torch.int64).add_(uniform < steps.sub_(low))


def mean(total: Tensor, weight: Tensor, scale: Tensor, count: int) -> Tensor:
    """The mean in float64 of a sum int64 of weighted levels whose weights add up to `weight`, int64."""
    doubled = 2 * total - (count - 1) * weight
    return doubled.to(torch.float64) * (scale.to(torch.float64) / (count - 1)) / weight.to(torch.float64)
