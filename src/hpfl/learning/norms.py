"""Norms of rows that are the same in any company."""

import torch
from torch import Tensor

_STRETCH = 1024  # squares that a norm adds up at a time


def row_norms(numbers: Tensor) -> Tensor:
    """Euclidean norms [u, 1] of the rows [u, n], in float64; on a CPU a row's is the same in any company.

    A row is added up in stretches of a fixed length, so that no library splits the sum by the number of rows.
    """
    squares = numbers.double().square()
    while squares.shape[1] > 1:
        width = min(_STRETCH, squares.shape[1])
        padding = -squares.shape[1] % width
        squares = torch.nn.functional.pad(squares, (0, padding)).view(len(squares), -1, width).sum(2)
    return squares.sqrt()
