"""What has left, or may leave, the cells of a private run, by UE: the cloud's count, kept on its disk as it grows.

An edge that is sent a model releases a sketch of its cell's noised mean, whether or not the cloud hears of it; so each
model that is handed to an edge counts, for all UEs of its cell, once. The update is the same release, unless it is of
other UEs than the sketch: that, and another sketch on the same model (an edge that was started again), counts again.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpfl import atomic
from hpfl.arrays import IntArray
from hpfl.deployment.deliveries import Delivered, Held
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.wire import Tag

FILE = "releases.json"


class Releases:
    """The counts [N] of one run, and the file that has them; a cloud that is started again counts rather too much."""

    def __init__(self, ues_of: Sequence[Collection[int]], num_ues: int, path: Path) -> None:
        self._ues_of = [np.array(sorted(ues), dtype=np.int64) for ues in ues_of]
        self._path, self._count = path, _read(path, num_ues)
        self._base: dict[int, bytes] = {}
        self._mark: dict[int, bytes] = {}

    @property
    def counts(self) -> IntArray:
        """So far, [N]."""
        return self._count.copy()

    def at_least(self, counts: IntArray) -> None:
        """What a checkpoint knows."""
        self._count = np.maximum(self._count, counts)

    def handed(self, edges: Collection[int], base: bytes) -> None:
        """Edges are sent a model; one that had it before releases nothing new."""
        new = [edge for edge in edges if self._base.get(edge) != base]
        for edge in new:
            self._base[edge] = base
            self._mark.pop(edge, None)
            self._count[self._ues_of[edge]] += 1
        if new:
            self._keep()

    def sketched(self, edge: int, tag: Tag, sketch: Any) -> None:
        """A sketch of an edge has come, sound or not, in time or not."""
        mark = hashlib.sha256(tag.base + sketch.values).digest()
        known = self._mark.setdefault(edge, mark)
        if known != mark:
            self._mark[edge] = mark
            self._count[self._ues_of[edge]] += 1
            self._keep()

    def ordered(self, asked: Mapping[int, Held], came: Mapping[int, Delivered]) -> None:
        """Updates were asked for; of those that have not come nobody knows whose they were."""
        others = [
            edge
            for edge, held in asked.items()
            if edge not in came or set(came[edge].ues) != set(held.sketch.ues.tolist())
        ]
        for edge in others:
            self._count[self._ues_of[edge]] += 1
        if others:
            self._keep()

    def _keep(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(self._path, json.dumps({"counts": self._count.tolist()}))


def _read(path: Path, num_ues: int) -> IntArray:
    if not path.exists():
        return np.zeros(num_ues, dtype=np.int64)
    try:
        counts = json.loads(path.read_text(encoding="utf-8"))["counts"]
        sound = len(counts) == num_ues and all(type(one) is int and 0 <= one < 2**53 for one in counts)
    except (ValueError, KeyError, TypeError):
        sound, counts = False, []
    if not sound:
        raise SettingsError(
            f"{path} is not the count of what {num_ues} UEs have released: without it no epsilon can be told; put it "
            "back, or begin another run in another folder"
        )
    return np.array(counts, dtype=np.int64)
