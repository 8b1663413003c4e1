"""How many neighbours a member would need if it exchanged masks and shares with a part of its cell alone.

Bell et al., "Secure single-server aggregation with (poly)logarithmic overhead", CCS 2020, draw a regular graph at
random: of each member's k neighbours a hypergeometric number colludes with the edge, and another drops out. Where a
third may collude and another third drop out, so many neighbours are needed that sessions use the complete graph:
nothing is left to chance there, and no edge can choose who is whose neighbour (docs/secure.md has the figures).
"""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Degree:
    """A member's neighbours, and how many shares of a secret, among them and itself, give it back."""

    neighbours: int
    threshold: int


@dataclass(frozen=True)
class RiskyCell:
    """A cell, and how many of its members may collude with the edge and may drop out; `2**-bits` is the risk taken."""

    members: int
    colluding: int
    dropped: int
    bits: int = 40

    @staticmethod
    def of_thirds(members: int, *, bits: int = 40) -> "RiskyCell":
        """Fewer than a third collude, and fewer than a third drop out: what a session withstands."""
        return RiskyCell(members, (members - 1) // 3, (members - 1) // 3, bits)


def degree(cell: RiskyCell, *, edge_lies: bool) -> Degree | None:
    """The fewest neighbours, an even number or all others, that a cell needs; None where even all are not enough.

    Each of these may fail with a chance of `2**-bits` over all members (section 3 of the paper):

    - a member's colluding neighbours have fewer shares of its secrets than the threshold t. Where the edge may lie
      about who has dropped out, its honest neighbours must not be enough either for t shares of both of its secrets:
      2 t > k + 1 + (colluding neighbours);
    - t of its neighbours and itself remain;
    - honest members that remain are connected: on a ring with k / 2 neighbours on either side, put in order at random,
      they fall apart only where k / 2 members in a row are no such members: n ((collude + drop out) / n)^(k / 2).
    """
    for neighbours in [*range(2, cell.members - 1, 2), cell.members - 1]:
        found = _threshold(cell, neighbours, edge_lies)
        if _remaining(cell, neighbours) >= found and _is_connected(cell, neighbours):
            return Degree(neighbours, found)
    return None


def chance_of_at_least(of: int, marked: int, drawn: int) -> FloatArray:
    """P[X >= x] for x = 0 ... drawn + 1, where X of the drawn are marked: a hypergeometric tail."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, of + 1)))])

    def log_ways(total: int, taken: IntArray) -> FloatArray:
        return np.asarray(log_factorial[total] - log_factorial[taken] - log_factorial[total - taken])

    found = np.zeros(drawn + 2)
    x = np.arange(max(0, drawn - (of - marked)), min(marked, drawn) + 1)
    every = log_ways(of, np.array(drawn))
    found[x] = np.exp(log_ways(marked, x) + log_ways(of - marked, drawn - x) - every)
    return np.asarray(np.cumsum(found[::-1])[::-1])


def _most(cell: RiskyCell, marked: int, neighbours: int) -> int:
    """How many of some member's neighbours are marked at most, but for the risk that is taken."""
    chances = cell.members * chance_of_at_least(cell.members - 1, marked, neighbours)
    return int(np.argmax(chances <= 2.0**-cell.bits)) - 1


def _threshold(cell: RiskyCell, neighbours: int, edge_lies: bool) -> int:
    most = _most(cell, cell.colluding, neighbours)
    return (neighbours + 1 + most) // 2 + 1 if edge_lies else most + 1


def _remaining(cell: RiskyCell, neighbours: int) -> int:
    """Of a member and its neighbours, those who do not drop out at least, whether it drops out itself or not."""
    if not cell.dropped:
        return neighbours + 1
    itself = 1 + _most(cell, cell.dropped - 1, neighbours)
    return neighbours + 1 - max(itself, _most(cell, cell.dropped, neighbours))


def _is_connected(cell: RiskyCell, neighbours: int) -> bool:
    """By the bound over all places on the ring; in the complete graph any two are neighbours."""
    missing = (cell.colluding + cell.dropped) / cell.members
    return neighbours == cell.members - 1 or cell.members * missing ** (neighbours / 2) <= 2.0**-cell.bits
