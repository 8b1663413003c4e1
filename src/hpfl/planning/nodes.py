"""Parts of the search for the best set of edges, many at a time: what is decided in each, and how to divide it."""

from dataclasses import dataclass, replace

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """One part per row: a cell of deadlines, edges taken and barred, limits on the number of edges, and a bound.

    `price` per Hz starts the next bound, and with two hops `tilt`, the log odds of the first one's part; `pivot` is the
    edge to branch on, or where `turn >= 0` the number of edges: at most `turn`, or more.
    """

    cell: IntArray
    taken: BoolArray
    barred: BoolArray
    least: IntArray
    most: IntArray
    price: FloatArray
    bound: FloatArray
    pivot: IntArray
    turn: IntArray
    tilt: FloatArray

    @staticmethod
    def roots(
        cells: int,
        taken: BoolArray,
        barred: BoolArray,
        *,
        sizes: tuple[int, int],
        price: float,
        tilt: float = 0.0,
    ) -> "Nodes":
        """One node per cell with nothing but `taken` and `barred` decided."""
        shape = (cells, taken.shape[-1])
        return Nodes(
            cell=np.arange(cells),
            taken=np.broadcast_to(taken, shape),
            barred=np.broadcast_to(barred, shape),
            least=np.full(cells, sizes[0]),
            most=np.full(cells, sizes[1]),
            price=np.full(cells, price),
            bound=np.full(cells, -np.inf),
            pivot=np.zeros(cells, dtype=np.int64),
            turn=np.full(cells, -1),
            tilt=np.full(cells, tilt),
        )

    @staticmethod
    def join(first: "Nodes", second: "Nodes") -> "Nodes":
        """The nodes of both."""
        return Nodes(**{name: np.concatenate([column, getattr(second, name)]) for name, column in vars(first).items()})

    def __len__(self) -> int:
        return self.cell.size

    def divided(self, parents: IntArray) -> "Nodes":
        """Nodes for cells that are parts of these nodes' cells: node `parents[j]` has the cell j among its parts."""
        return replace(self.rows(parents), cell=np.arange(parents.size))

    def rows(self, index: IntArray | BoolArray) -> "Nodes":
        """The chosen rows."""
        return Nodes(**{name: column[index] for name, column in vars(self).items()})

    def with_rows(self, index: IntArray, rows: "Nodes") -> "Nodes":
        """The nodes with others in these rows."""
        columns = {name: column.copy() for name, column in vars(self).items()}
        for name, column in columns.items():
            column[index] = getattr(rows, name)
        return Nodes(**columns)

    def decide(self, take: BoolArray, bar: BoolArray) -> "Nodes":
        """Take and bar more edges, and what the limits then leave no choice about; contradictory rows go."""
        taken, barred = self.taken | take, self.barred | bar
        count, room = taken.sum(axis=1), (~barred).sum(axis=1)
        full, scarce = count == self.most, room == self.least
        valid = (count <= self.most) & (room >= self.least) & ~(taken & barred).any(axis=1)
        barred = np.where(full[:, None], ~taken, barred)
        taken = np.where((scarce & ~full)[:, None], ~barred, taken)
        return replace(self, taken=taken, barred=barred).rows(valid)

    def children(self, twins: IntArray) -> "Nodes":
        """Both halves of every node; of twins (edges with one number in `twins`) the first are taken first."""
        counted = self.turn >= 0
        edges = np.arange(twins.size)
        related = twins[self.pivot][:, None] == twins
        pivot = np.where(counted, -1, self.pivot)[:, None]
        take = ((edges == pivot) | (related & (edges < pivot))) & ~counted[:, None]
        bar = ((edges == pivot) | (related & (edges > pivot))) & ~counted[:, None]
        none = np.zeros_like(take)
        fewer = replace(self, most=np.where(counted, self.turn, self.most)).decide(none, bar)
        more = replace(self, least=np.where(counted, self.turn + 1, self.least)).decide(take, none)
        return Nodes.join(fewer, more)
