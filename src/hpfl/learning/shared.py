"""Samples that many UEs share: what a first dense layer makes of them is computed once, and looked up by every UE.

Where N rows are shared by far more samples of UEs, a layer's outputs at the round's model cost N products instead of
one for each sample, and inner products of a UE's inputs are entries of one table [N, N].
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpfl.arrays import IntArray

SHARED_CHUNKS = (
    4  # times the samples of other chunks: there is less to do for each, and what launches it costs the same
)
LEAST_SHARED = 8  # samples of all UEs for each row there is: fewer gain little


def much_shared(sizes: IntArray, num_rows: int) -> bool:
    """Whether UEs of these sizes share the rows so much that a table of them pays."""
    return int(sizes.sum()) >= LEAST_SHARED * max(num_rows, 1)


@dataclass
class _SharedOutputs:
    """Outputs of all rows at one layer's weights, and those they were computed with, which are held."""

    rows: Tensor | None = None
    made_with: tuple[Tensor | None, ...] = ()
    stamps: tuple[tuple[int, int] | None, ...] = ()


@dataclass(frozen=True)
class ProductTable:
    """Rows [N, in] that UEs share, and their inner products [N, N], plus 1 where the layer has a bias."""

    rows: Tensor
    products: Tensor
    first: Tensor  # per UE: place of its first sample in `places`
    places: Tensor  # per sample of any UE, UE after UE: its row
    known: _SharedOutputs = field(default_factory=_SharedOutputs)

    @staticmethod
    def of(rows: Tensor, first: IntArray, places: NDArray[np.int32], *, bias: bool) -> "ProductTable":
        """The table of these rows, for UEs whose samples are these."""
        products = rows @ rows.mT
        at, own = (torch.from_numpy(given).to(rows.device) for given in (first, places))
        return ProductTable(rows, products.add_(1) if bias else products, at, own)

    def take(self, ues: IntArray, counts: IntArray, width: int) -> "SharedRows":
        """The samples of UEs, padded to one width by their first."""
        own, sample = torch.from_numpy(ues).to(self.rows.device), torch.arange(width, device=self.rows.device)
        real = sample < torch.from_numpy(counts).to(self.rows.device)[:, None]
        index = self.places[self.first[own][:, None] + torch.where(real, sample, 0)]
        return SharedRows(self, index.long(), counts)

    def outputs(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`x W^T + b` of all rows, kept while the weights stay what they are."""
        known, stamps = self.known, (_stamp(weight), _stamp(bias))
        if known.rows is None or known.stamps != stamps:
            known.rows = torch.nn.functional.linear(self.rows, weight, bias)
            known.made_with, known.stamps = (weight, bias), stamps
        return known.rows


def _stamp(own: Tensor | None) -> tuple[int, int] | None:
    """Where a tensor lies and how often it was written to: another one cannot have both while it is held."""
    return None if own is None else (own.data_ptr(), own._version)


@dataclass(frozen=True, eq=False)
class SharedRows:
    """Rows [u, n, in] of a table, by their numbers; formed only where it must be."""

    table: ProductTable
    index: Tensor  # [u, n]
    counts: IntArray  # [u]: samples that count, the others fill the rectangle up

    @property
    def shape(self) -> torch.Size:
        """[u, n, in]."""
        return torch.Size((*self.index.shape, self.table.rows.shape[1]))

    def formed(self) -> Tensor:
        """The rows themselves."""
        return self.table.rows.index_select(0, self.index.reshape(-1)).view(self.shape)

    def outputs(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outputs [u, n, out] of a dense layer with these weights."""
        found = self.table.outputs(weight, bias).index_select(0, self.index.reshape(-1))
        return found.view(*self.index.shape, -1)

    def products(self) -> Tensor:
        """Inner products [u, n, n] of every UE's rows."""
        place = (self.index * len(self.table.rows)).unsqueeze(2) + self.index.unsqueeze(1)
        return self.table.products.view(-1).index_select(0, place.view(-1)).view(place.shape)


LayerRows = Tensor | SharedRows
"""Rows [u, n, ...] as they are, or by their numbers."""


def as_tensor(rows: LayerRows) -> Tensor:
    """Rows as they are."""
    return rows.formed() if isinstance(rows, SharedRows) else rows
