"""What has left the cells of a private run, by UE: every sketch that came, and updates of others than their sketch."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hpfl.arrays import IntArray
from hpfl.deployment.deliveries import Delivered, Held


class Releases:
    """Counts until somebody asks. A sketch that is said again is none; after a start of the cloud it is one again."""

    def __init__(self, ues_of: Sequence[Collection[int]]) -> None:
        self._ues_of = ues_of
        self._last: dict[int, bytes] = {}
        self._count: Counter[int] = Counter()

    def sketched(self, edge: int, sketch: Any) -> None:
        """A sketch of an edge has come, sound or not, in time or not."""
        mark = hashlib.sha256(sketch.values).digest()
        if self._last.get(edge) != mark:
            self._last[edge] = mark
            self._count.update(frozenset(sketch.ue) & frozenset(self._ues_of[edge]))

    def ordered(self, asked: Mapping[int, Held], came: Mapping[int, Delivered]) -> None:
        """Updates were asked for. One of the UEs that were announced is no other release than their sketch."""
        for edge, held in asked.items():
            announced = set(held.sketch.ues.tolist())
            if edge not in came or set(came[edge].ues) != announced:
                self._count.update(announced)

    def taken(self, num_ues: int) -> IntArray:
        """Releases [N] since this was asked last."""
        found = np.zeros(num_ues, dtype=np.int64)
        for ue, count in self._count.items():
            found[ue] = count
        self._count.clear()
        return found
