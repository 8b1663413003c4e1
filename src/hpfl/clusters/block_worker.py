"""A worker of one large run: it holds the samples and the private rows of its UEs, and computes their blocks."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import hpfl
from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.clusters.surroundings import Surroundings
from hpfl.learning import Cohort, Kept, TestData
from hpfl.learning.cohort_round import Request
from hpfl.learning.part import PartData

ROWS = ("method", "uplink", "codec")
"""What UEs keep between rounds, by name."""
HELD = "held"
"""Stands for rows that the worker has."""

Array = NDArray[Any]
SentRows = Mapping[str, Array | str]


@dataclass(frozen=True)
class HeldSamples:
    """The samples of a worker's UEs as arrays, and of those it only tries; `own` are the UEs that it evaluates."""

    train: Mapping[str, Any]
    test: Mapping[str, Any] | None
    own: IntArray


@dataclass(frozen=True)
class Given:
    """Private rows of the UEs of a call, or `HELD`; these are to be as they were `after` an earlier answer."""

    rows: SentRows = field(default_factory=dict)
    after: str = ""


@dataclass(frozen=True)
class Answered:
    """Sums of each block, and of the UEs: losses [2, n], private rows, updates [n, P] and variances where asked for.

    `seconds` is what the worker took, from the call to the answer.
    """

    sums: list[tuple[int, Array]]
    losses: Array
    rows: dict[str, Array]
    per_ue: Array | None
    variance: Array | None
    now: str
    squared: Array | None = None  # [n]: squared norms before clipping, where asked for
    seconds: float = 0.0


@dataclass(frozen=True)
class Forgotten:
    """The worker is not the one that had these rows: it wants them again."""


def packed(data: PartData | TestData) -> dict[str, Any]:
    """Samples as arrays, which travel without a copy."""
    return {"inputs": data.inputs.numpy(), "targets": data.targets.numpy(), "shards": data.shards}


def tensor(array: Array) -> torch.Tensor:
    """A tensor of one's own, for what has travelled may not be written to; it begins where tensors do."""
    own = torch.empty(array.shape, dtype=torch.from_numpy(np.empty(0, array.dtype)).dtype)
    np.copyto(own.numpy(), array)
    return own


class Worker:
    """Computes blocks of UEs; recipe and samples are fetched once, and again when the worker was started again."""

    def __init__(self, around: Surroundings, device: str) -> None:
        around.take()
        self._device = device
        self._cohorts: dict[int, tuple[Cohort, TestData | None, IntArray]] = {}
        self._rows: dict[int, HeldRows] = {}

    def about(self, number: int, refs: list[Any]) -> dict[str, str]:
        """What it computes with, which must be the same for all."""
        engine = type(self._cohort(number, refs)[0].engine).__name__
        return {"hpfl": hpfl.__version__, "torch": torch.__version__, "numpy": np.__version__, "engine": engine}

    def updates(
        self, number: int, refs: list[Any], params: Array, asked: Mapping[str, Any], given: Given
    ) -> Answered | Forgotten:
        """The sums of the blocks of a request, and what there is of its UEs."""
        began = time.perf_counter()
        cohort, _, _ = self._cohort(number, refs)
        held = self._rows[number]
        options = dict(asked)
        keep_per_ue, all_asked = options.pop("keep_per_ue"), options.pop("all_asked")
        request = Request(tensor(params).to(self._device), **options)
        kept = held.kept(request.ues, given)
        if kept is None:
            return Forgotten()
        sums, answer = cohort.part_updates(request, kept, keep_per_ue=keep_per_ue, all_asked=all_asked)
        rows = {name: own.cpu().numpy() for name in ROWS if (own := getattr(answer.kept, name)) is not None}
        return Answered(
            sums=[(first, own.cpu().numpy()) for first, own in sums],
            losses=answer.losses.cpu().numpy(),
            rows=rows,
            per_ue=None if answer.per_ue is None else answer.per_ue.cpu().numpy(),
            variance=None if answer.variance is None else answer.variance.cpu().numpy(),
            now=held.keep(request.ues, _sent(given) | rows),
            squared=None if answer.squared is None else answer.squared.cpu().numpy(),
            seconds=time.perf_counter() - began,
        )

    def evaluate(
        self, number: int, refs: list[Any], params: Array, steps: tuple[float, int], given: Given
    ) -> tuple[FloatArray, str] | Forgotten:
        """Figures [columns, n] of its own UEs."""
        cohort, test, own = self._cohort(number, refs)
        held = self._rows[number]
        kept = held.kept(own, given)
        if kept is None:
            return Forgotten()
        assert test is not None
        figures = cohort.figures_at(tensor(params), test, own, cohort.adapting(*steps), kept)
        return figures, held.keep(own, _sent(given))

    def _cohort(self, number: int, refs: list[Any]) -> tuple[Cohort, TestData | None, IntArray]:
        if number not in self._cohorts:
            import ray

            recipe, part = ray.get(refs)
            test = None if part.test is None else TestData(**_opened(part.test))
            cohort = Cohort(**recipe, **_opened(part.train), test=test, device=self._device)
            self._cohorts[number] = cohort, test, part.own
            self._rows[number] = HeldRows(len(cohort.data.samples.shards.sizes))
        return self._cohorts[number]


def _opened(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "inputs": tensor(data["inputs"]), "targets": tensor(data["targets"])}


def _sent(given: Given) -> dict[str, Array]:
    """The rows that came along."""
    return {name: rows for name, rows in given.rows.items() if not isinstance(rows, str)}


class HeldRows:
    """The private rows of a worker's UEs as they were after the call that is called `now`."""

    def __init__(self, num_ues: int) -> None:
        self._place = np.full(num_ues, -1, dtype=np.int64)
        self._rows: dict[str, Array] = {}
        self._has: dict[str, BoolArray] = {}
        self.now = ""

    def kept(self, ues: IntArray, given: Given) -> Kept | None:
        """The rows of UEs; None where some are meant to be here and are not.

        A worker that was started again may have been sent the rows of other UEs since, and so know the last call.
        """
        meant = [name for name, rows in given.rows.items() if isinstance(rows, str)]
        if meant and given.after != self.now:
            return None
        if not all(name in self._has and self._has[name][ues].all() for name in meant):
            return None
        own = {
            name: self._rows[name][self._place[ues]] if isinstance(rows, str) else rows
            for name, rows in given.rows.items()
        }
        return Kept(**{name: tensor(rows) for name, rows in own.items()})

    def keep(self, ues: IntArray, rows: Mapping[str, Array]) -> str:
        """Have new rows of UEs; what is here is called otherwise from now on."""
        if rows:
            self._make_room(ues, rows)
            for name, own in rows.items():
                self._rows[name][self._place[ues]] = own
                self._has[name][ues] = True
            self.now = uuid.uuid4().hex
        return self.now

    def _make_room(self, ues: IntArray, rows: Mapping[str, Array]) -> None:
        new = ues[self._place[ues] < 0]
        before = int((self._place >= 0).sum())
        self._place[new] = before + np.arange(len(new))
        for name, own in rows.items():
            self._has.setdefault(name, np.zeros(len(self._place), dtype=np.bool_))
            old = self._rows.get(name, np.zeros((0, own.shape[1]), own.dtype))
            if len(old) < before + len(new):
                more = np.zeros((before + len(new) - len(old), own.shape[1]), own.dtype)
                self._rows[name] = np.concatenate([old, more])
