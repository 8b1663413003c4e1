"""How many members of a cell a secure sum needs, of how many: the same for configurations, UEs and edges."""

from typing import TypeVar

from hpfl.arrays import IntArray

LARGEST_CELL = 1024
"""Members of a cell: everybody agrees on masks with everybody (docs/secure.md)."""

Count = TypeVar("Count", int, IntArray)


def quorum_of(members: Count) -> Count:
    """t = floor(2 N / 3) + 1: 2 t > N + (colluding members) for fewer than N / 3 of them (Bonawitz, Thm 6.5)."""
    return 2 * members // 3 + 1
