"""A cohort's data where they are used: on a device, arranged in rectangles, packed once where the memory holds them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.answers import TestData
from hpfl.learning.batches import Batch, Samples
from hpfl.learning.blocks import BLOCK
from hpfl.learning.faults import LearningError
from hpfl.learning.packing import SHARED_PADDING, Layout, Store, gram_bytes, packed_bytes, whole_batch
from hpfl.learning.room import Room
from hpfl.learning.shared import ProductTable, much_shared

_USABLE = {"cpu": 0.75, "cuda": 0.5}  # share of the budget planned with; the rest is the allocator's and libraries'
_STORE_SHARE = 0.4  # of what the data leave free, for whole shards packed once

Gram = Callable[[Batch], Tensor]


class Tabling(Protocol):
    """An engine that can make a table of rows that UEs share."""

    def table(self, samples: Samples) -> ProductTable: ...
    def table_bytes(self, samples: Samples) -> int: ...


class Placement:
    """Samples of all UEs, their layouts for whole shards and for drawn batches, and the memory that is left."""

    def __init__(
        self, samples: Samples, room: Room, *, padding: float, batch_size: int | None, block_ues: int = BLOCK
    ) -> None:
        self.samples, self.room, self._block_ues = samples, room, block_ues
        self.whole = Layout.of(samples.shards.sizes, padding)
        most = samples.shards.sizes if batch_size is None else np.minimum(samples.shards.sizes, batch_size)
        self.drawn = self.whole if batch_size is None else Layout.of(most, padding)
        self.store: Store | None = None
        self.gram: Gram | None = None  # what makes the inner products that lie beside the packed shards
        self._packs = False
        self._tests: tuple[TestData, Samples] | None = None

    @property
    def num_ues(self) -> int:
        """Number N of UEs with a shard."""
        return len(self.samples.shards.sizes)

    def reserve(self, *, whole: bool, gram: Gram | None, test: TestData | None) -> None:
        """Set memory aside for good: for packed shards, inner products of their inputs, and test samples."""
        share = _STORE_SHARE
        self._packs = whole and self.room.set_aside(packed_bytes(self.samples, self.whole), share=share)
        if self._packs and gram is not None:
            fits = self.room.set_aside(gram_bytes(self.samples, self.whole), share=share)
            self.gram = gram if fits else None
        if test is not None:
            samples = test.on(self.samples.inputs.device, self.samples.dtype)
            need = samples.bytes_beyond(test.inputs, test.targets)
            self._tests = (test, samples) if self.room.set_aside(need, share=share) else None

    def share(self, tabling: Tabling | None) -> None:
        """Make a table of the rows that UEs share, where their shards are not packed and memory can be set aside."""
        samples = self.samples
        if tabling is None or self._packs or not much_shared(samples.shards.sizes, len(samples.inputs)):
            return
        if self.room.set_aside(tabling.table_bytes(samples), share=_STORE_SHARE):
            self.samples = replace(samples, table=tabling.table(samples))
            if samples.inputs.is_cuda:
                self.whole = self.drawn = Layout.of(samples.shards.sizes, SHARED_PADDING)

    def tests(self, test: TestData) -> Samples:
        """Test samples on the device."""
        if self._tests is not None and self._tests[0] is test:
            return self._tests[1]
        return test.on(self.samples.inputs.device, self.samples.dtype)

    def stay(self, tests: Samples) -> bool:
        """Whether these test samples are the ones that stay on the device."""
        return self._tests is not None and self._tests[1] is tests

    def pack(self) -> None:
        """Pack whole shards once, where memory was set aside for them."""
        if self.store is None and self._packs:
            store = Store.of(self.samples, self.whole, self._block_ues)
            self.store = store if self.gram is None else store.with_grams(self.gram)

    def whole_batch(self, ues: IntArray) -> Batch:
        """Whole shards of UEs of one bucket."""
        if self.store is not None:
            return self.store.batch(ues)
        return whole_batch(self.samples, ues, self.whole.widths[int(self.whole.bucket_of[ues[0]])])

    def largest(self, layout: Layout, bucket: int) -> IntArray:
        """The UE with most samples of a bucket, [1]."""
        own = layout.members[bucket]
        return own[[int(np.argmax(self.samples.shards.sizes[own]))]]


def refuse_empty(ues: IntArray, sizes: IntArray) -> None:
    """Refuse UEs without samples."""
    empty = ues[sizes[ues] == 0]
    if len(empty):
        raise LearningError(f"UE {int(empty[0])} takes part but its shard is empty; wanted at least one sample")


def converted(samples: Samples, memory_gb: float) -> Samples:
    """Samples as a CPU reads them fastest, where there is room: as numbers, not as bytes."""
    on_cpu, room = samples.inputs.device.type == "cpu", _STORE_SHARE * memory_gb * 1e9
    return samples.converted() if on_cpu and samples.whole_bytes(samples.inputs) * 4 <= room else samples


def room_beside(samples: Samples, memory_gb: float, *given: Tensor) -> Room:
    """What `memory_gb` leaves beside the data; refused where they alone take it all."""
    usable = memory_gb * 1e9 * _USABLE.get(samples.inputs.device.type, 0.5)
    room = Room(usable - samples.bytes_beyond(*given))
    if room.free <= 0:
        data_gb = samples.nbytes / 1e9
        raise LearningError(f"learning.memory_gb is {memory_gb}; the data alone take {data_gb:.3f} GB, wanted more")
    return room


def per_ue_bytes(count: int, numbers: int, dtype: torch.dtype) -> int:
    """Bytes of `numbers` numbers of each of `count` UEs."""
    return count * numbers * torch.finfo(dtype).bits // 8
