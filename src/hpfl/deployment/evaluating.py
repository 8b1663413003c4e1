"""What UEs report of a model: losses and accuracies on their own data, a few numbers each, nothing of the data."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.deployment.checks import check_same_model
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag, as_numbers
from hpfl.learning.metrics import LOSS_COLUMNS

_ROUNDING = 1e-4
"""How far above its range a mean in float32 may be."""


class Evaluating:
    """Figures by UE, as children report them, in the order of the experiment's `columns`, each within its range.

    Who reports is `told`.
    """

    def __init__(
        self,
        tag: Tag,
        columns: tuple[str, ...],
        ranges: Sequence[tuple[float, float]],
        told: Callable[[int], object] = id,
    ) -> None:
        self.tag, self._columns, self._told = tag, columns, told
        self._least, self._largest = np.array(ranges, dtype=np.float64).T
        self.figures: dict[int, FloatArray] = {}
        self.heard: set[int] = set()
        self.changed = asyncio.Event()

    def take(self, tag: Tag, child: int, message: Any, *, allowed: Collection[int]) -> None:
        """Figures of one child: a UE's own, or those of an edge's UEs; who reports nonsense is not waited for."""
        check_same_model(tag, self.tag, rounds=True)
        if child in self.heard:
            raise RefusedError("repeated", f"second figures of child {child} came")
        if not set(message.ue) <= set(allowed) or len(set(message.ue)) != len(message.ue):
            raise RefusedError("identity", "figures came for UEs that are not this child's")
        rows = as_numbers(message.values, count=len(self._columns) * len(message.ue)).reshape(-1, len(self._columns))
        self.heard.add(child)
        self._told(child)
        self.changed.set()
        if np.isinf(rows).any() or np.isnan(rows[:, : len(LOSS_COLUMNS)]).any():
            raise RefusedError("nonfinite", "figures came with an infinite or undefined loss")
        outside = (rows < self._least - _ROUNDING) | (rows > self._largest + _ROUNDING)
        if outside.any():
            row, at = np.argwhere(outside)[0]
            raise RefusedError(
                "range",
                f"{self._columns[at]} is {rows[row, at]:.4g} at UE {message.ue[row]}, "
                f"wanted {self._least[at]:g} to {self._largest[at]:g}",
            )
        self.figures.update(zip(message.ue, rows, strict=True))
