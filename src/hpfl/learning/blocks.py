"""Canonical blocks: which UEs are added up before their sum is added to the whole.

Floating-point sums depend on their order. A block is so many UEs that follow each other by number, whoever of them
takes part; its sum starts at zero, and blocks are added in their order. So UEs that are split at the borders of blocks,
over processes or machines, for good, give the bits they give in one piece.
"""

import numpy as np

from hpfl.arrays import IntArray

BLOCK = 16384  # UEs: few enough to spread a large run, enough that a GPU is as fast as in one piece


def blocks(ues: IntArray, size: int = BLOCK) -> list[IntArray]:
    """Places in the request of each block that has UEs in it, in the order of their numbers."""
    number = np.asarray(ues) // size
    if not len(number) or number.min() == number.max():
        return [np.arange(len(number))]
    order = np.argsort(ues, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
