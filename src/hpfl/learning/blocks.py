"""Canonical blocks: which UEs are added up before their sum is added to the whole.

Floating-point sums depend on their order. A block is a function of who takes part and of nothing else, its sum starts
at zero, and blocks are added in their order: so a roster that is split at the borders of blocks, over processes or
machines, gives the bits it gives in one piece.
"""

import numpy as np

from hpfl.arrays import IntArray

BLOCK = 16384  # UEs: few enough to spread a large round, enough that a GPU is as fast as in one piece


def blocks(ues: IntArray, size: int = BLOCK) -> list[IntArray]:
    """Places in the request of each block: at most `size` UEs, in the order of their numbers."""
    if len(ues) <= size:
        return [np.arange(len(ues))]
    order = np.argsort(ues, kind="stable")
    return [order[first : first + size] for first in range(0, len(order), size)]
