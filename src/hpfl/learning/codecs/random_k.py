"""Codec `random-k`: numbers in places that a common seed names, scaled so that the mean is right."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.codecs.sparse import DEFAULT, Sparse, SparseChoice
from hpfl.learning.draws import Draws
from hpfl.learning.message import Side, SideField
from hpfl.learning.uplink import UPLINKS, UplinkStep

_WORD = 32
_MASK = (1 << _WORD) - 1
_FACTOR = 0x45D9F3B  # its product with a word stays within 63 bits


@dataclass(frozen=True)
class RandomK(UplinkStep):
    """One number, at random, of each of `k` stretches of nearly equal length, times that length; and a word of seed.

    Each number is sent with probability 1 / length, so that the mean is right, with variance
    `sum_j (length_j - 1) x_j^2`, as of `k` places drawn from all; `k` draws suffice.
    """

    sparse: Sparse = DEFAULT

    def length(self, n: int) -> int:
        """The `k` values."""
        return self.sparse.count(n, "random-k")

    def side(self, n: int) -> tuple[SideField, ...]:
        """The seed of the places."""
        return (SideField("seed", torch.int64, 1, _WORD),)

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """Scaled values of numbers [u, n] and the seed of their places."""
        seed, n = self.seeds(draws), numbers.shape[1]
        return numbers.gather(1, self.places_of(seed, n)) * self.sizes(n, numbers.device), {"seed": seed}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """The values in their places, 0 elsewhere."""
        return numbers.new_zeros(len(numbers), n).scatter_(1, self.places_of(side["seed"], n), numbers)

    def variance(self, numbers: Tensor) -> Tensor:
        """`sum_j (length_j - 1) x_j^2`, [u]."""
        _, size = self._stretches(numbers.shape[1], numbers.device)
        return (numbers.double().square() * (size.repeat_interleave(size) - 1)).sum(1)

    def seeds(self, draws: Draws) -> Tensor:
        """A seed for each member, [u, 1]."""
        return draws.uniform(1).mul(1 << _WORD).long()

    def sizes(self, n: int, device: torch.device) -> Tensor:
        """Lengths [k] of the stretches: what a value is multiplied by."""
        return self._stretches(n, device)[1]

    def places_of(self, seed: Tensor, n: int) -> Tensor:
        """A place in each stretch, [u, k], for seeds [u, 1]; whole numbers alone, so that every device agrees."""
        first, size = self._stretches(n, seed.device)
        word = _mixed(_mixed(seed) + torch.arange(len(first), device=seed.device))
        return first + (word * size >> _WORD)

    def _stretches(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """First place and length of each of the `k` stretches of `n` numbers."""
        k = self.length(n)
        ends = torch.arange(k + 1, device=device) * n // k
        return ends[:-1], ends.diff()


def _mixed(words: Tensor) -> Tensor:
    """Words of 32 bits, stirred: a bijection in which every bit in changes about half of those out."""
    words = words & _MASK
    for _ in range(2):
        words = (words ^ (words >> 16)) * _FACTOR & _MASK
    return words ^ (words >> 16)


@UPLINKS.register("random-k", options="hpfl.learning.codecs.codec_options:SparseOptions", codec=True)
def random_k(*, options: SparseChoice) -> RandomK:
    """Numbers in places that a common seed names, scaled so that the mean is right."""
    return RandomK(Sparse(options.share, options.k))
