"""Codec `top-k`: the largest numbers alone, with their places; what did not arrive is added to the next update."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.learning.codecs.sparse import DEFAULT, Sparse, SparseChoice
from hpfl.learning.draws import Draws
from hpfl.learning.message import Side, SideField
from hpfl.learning.uplink import UPLINKS, UplinkStep


@dataclass(frozen=True)
class TopK(UplinkStep):
    """The `k` numbers of greatest magnitude, those in front where some are equal; places of `ceil(log2 n)` bits."""

    sparse: Sparse = DEFAULT
    feeds_back: bool = True

    def length(self, n: int) -> int:
        """The `k` values."""
        return self.sparse.count(n, "top-k")

    def side(self, n: int) -> tuple[SideField, ...]:
        """Places of the values."""
        return (SideField("place", torch.int64, self.length(n), max((n - 1).bit_length(), 1), below=n),)

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """The largest of numbers [u, n] and their places, in order."""
        place = largest(numbers.abs(), self.length(numbers.shape[1]))
        return numbers.gather(1, place), {"place": place}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """The values in their places, 0 elsewhere."""
        return numbers.new_zeros(len(numbers), n).scatter_(1, side["place"], numbers)


def largest(sizes: Tensor, k: int) -> Tensor:
    """Places [u, k], in order, of the `k` largest of each row; of equal ones the first, on every device."""
    least = torch.topk(sizes, k, dim=1, sorted=False).values.amin(1, keepdim=True)
    chosen = sizes >= least
    if int(chosen.sum()) > k * len(sizes):
        above, equal = sizes > least, sizes == least
        room = k - above.sum(1, keepdim=True)
        chosen = above | (equal & (equal.cumsum(1) <= room))
    return chosen.nonzero()[:, 1].view(len(sizes), k)


@UPLINKS.register("top-k", options="hpfl.learning.codecs.codec_options:SparseOptions", codec=True)
def top_k(*, options: SparseChoice) -> TopK:
    """The largest numbers alone; what did not arrive is kept and added to the next update."""
    return TopK(Sparse(options.share, options.k))
