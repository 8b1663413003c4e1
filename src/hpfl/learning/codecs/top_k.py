"""Codec `top-k`: the largest numbers alone, with their places; what did not arrive is added to the next update."""

from dataclasses import dataclass

import numpy as np
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

    def delay(self, numbers: Tensor) -> Tensor:
        """`sum_j x_j^2 (T_j - 1) / 2 / |x|^2`, [u], with `T_j = max(1, theta / |x_j|)` rounds between two of its turns.

        A number that grows by `|x_j|` a round is sent when it has grown to `theta`, and waits half that time in the
        mean. The `k` places of a round are all taken where `sum_j min(1, |x_j| / theta) = k`.
        """
        sizes = numbers.abs().to(torch.float64)
        theta = _threshold(sizes, self.length(numbers.shape[1]))
        waits = (theta * sizes - sizes.square()).clamp(min=0.0).sum(1)
        return 0.5 * waits / sizes.square().sum(1).clamp(min=torch.finfo(torch.float64).tiny)


_TURNS = 64  # of an iteration that mostly ends within ten


def _threshold(sizes: Tensor, k: int) -> Tensor:
    """`theta` [u, 1] with `sum_j min(1, sizes_j / theta) = k`; it falls as those above it are counted."""
    theta = sizes.sum(1, keepdim=True) / k
    for _ in range(_TURNS):
        above = sizes >= theta
        free = k - above.sum(1, keepdim=True)
        less = torch.where(free > 0, sizes.masked_fill(above, 0.0).sum(1, keepdim=True) / free.clamp(min=1), theta)
        if torch.equal(less, theta):
            break
        theta = less
    return theta


def largest(sizes: Tensor, k: int) -> Tensor:
    """Places [u, k], in order, of the `k` largest of each row; of equal ones the first, on every device."""
    least = _least_of_largest(sizes, k)
    chosen = sizes >= least
    if int(chosen.sum()) > k * len(sizes):
        above, equal = sizes > least, sizes == least
        room = k - above.sum(1, keepdim=True)
        chosen = above | (equal & (equal.cumsum(1) <= room))
    return chosen.nonzero()[:, 1].view(len(sizes), k)


def _least_of_largest(sizes: Tensor, k: int) -> Tensor:
    """The `k`-th largest of each row, [u, 1]; on a CPU NumPy finds it several times faster."""
    if sizes.is_cuda or sizes.dtype not in (torch.float32, torch.float64):
        return torch.topk(sizes, k, dim=1, sorted=False).values.amin(1, keepdim=True)
    place = sizes.shape[1] - k
    return torch.from_numpy(np.partition(sizes.numpy(), place, axis=1)[:, place : place + 1].copy())


@UPLINKS.register("top-k", options="hpfl.learning.codecs.codec_options:SparseOptions", codec=True)
def top_k(*, options: SparseChoice) -> TopK:
    """The largest numbers alone; what did not arrive is kept and added to the next update."""
    return TopK(Sparse(options.share, options.k))
