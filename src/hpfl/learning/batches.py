"""Which samples a UE uses when: keyed mini-batch draws, padding into rectangles, and the rows behind them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpfl.arrays import FloatArray, IntArray
from hpfl.learning.losses import Mass
from hpfl.learning.shared import ProductTable, SharedRows
from hpfl.rng import Stream

_LONGEST_GAP = 64  # UEs skipped rather than starting another draw, where they have few words each
_MOST_SKIPPED = 4096  # words
_ALIGNED_BYTES = 64  # where PyTorch has every new array begin
_MOST_CANDIDATES = 400  # ends of groups tried; more cost time without saving padding


class Segments(Protocol):
    """UE shards as segments of one arranged copy of the data; `hpfl.data.Shards` is one."""

    @property
    def offsets(self) -> IntArray:
        """UE i owns segments `offsets[i] .. offsets[i+1]`."""

    @property
    def start(self) -> IntArray:
        """First arranged row of each segment."""

    @property
    def length(self) -> IntArray:
        """Rows in each segment."""


@dataclass(frozen=True)
class ShardRows:
    """The arranged row of any UE's k-th sample, for whole arrays of (UE, k)."""

    first: IntArray  # per UE: place of its first sample among the samples of all segments in order
    sizes: IntArray  # per UE
    before: IntArray  # per segment: samples of all earlier segments
    start: IntArray  # per segment: its first arranged row
    held: IntArray | None = None  # the UEs whose samples are here; None: all
    all_rows: int | None = None  # of the whole data, where only a part of it is here: budgets of memory go by it

    @staticmethod
    def of(shards: "Segments | ShardRows") -> "ShardRows":
        """The lookup of a partition."""
        if isinstance(shards, ShardRows):
            return shards
        offsets = np.asarray(shards.offsets, dtype=np.int64)
        ends = np.concatenate([[0], np.cumsum(np.asarray(shards.length, dtype=np.int64))])
        first = ends[offsets[:-1]]
        return ShardRows(first, ends[offsets[1:]] - first, ends[:-1], np.asarray(shards.start, dtype=np.int64))

    def every_row(self) -> NDArray[np.int32]:
        """The arranged row of every sample that is here, segment after segment: of sample k of a UE at `first + k`."""
        length = np.diff(np.append(self.before, self.num_samples))
        row: NDArray[np.int32] = np.repeat((self.start - self.before).astype(np.int32), length)
        row += np.arange(self.num_samples, dtype=np.int32)
        return row

    @property
    def num_samples(self) -> int:
        """Samples of the UEs that are here."""
        return int(self.sizes.sum() if self.held is None else self.sizes[self.held].sum())

    def rows(self, ues: IntArray, index: IntArray) -> IntArray:
        """Arranged rows [u, n] of samples `index` [u, n] of UEs [u]."""
        place = self.first[ues][:, None] + index
        segment = np.searchsorted(self.before, place, side="right") - 1
        return self.start[segment] + place - self.before[segment]


@dataclass(frozen=True)
class Samples:
    """Inputs and targets on their device, with the rows each UE owns; bytes become numbers in [0, 1] when used."""

    inputs: Tensor
    targets: Tensor
    shards: ShardRows
    dtype: torch.dtype
    mass: Mass | None = None  # what samples count in a UE's mean; None: all alike
    table: ProductTable | None = None  # what a first layer makes of the rows, where UEs share them

    @staticmethod
    def on(
        device: torch.device, dtype: torch.dtype, *, inputs: Tensor, targets: Tensor, shards: Segments | ShardRows
    ) -> "Samples":
        """Arranged data moved to a device; whole-number inputs other than bytes (tokens) stay as they are."""
        if inputs.is_floating_point():
            inputs = inputs.to(dtype)
        targets = targets.to(dtype) if targets.is_floating_point() else targets.long()
        return Samples(inputs.to(device), targets.to(device), ShardRows.of(shards), dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of inputs and targets on the device, of the whole data."""
        return self.whole_bytes(self.inputs) + self.whole_bytes(self.targets)

    def whole_bytes(self, own: Tensor) -> int:
        """Bytes of inputs or targets, of the whole data where a part of it is here: all processes budget alike."""
        every = self.shards.all_rows
        return own.nbytes if every is None else every * own[:1].numel() * own.element_size()

    def bytes_beyond(self, *given: Tensor) -> int:
        """Bytes taken beside the tensors that were given: none where they serve as they are."""
        shared = {tensor.data_ptr() for tensor in given}
        return sum(self.whole_bytes(own) for own in (self.inputs, self.targets) if own.data_ptr() not in shared)

    @property
    def input_itemsize(self) -> int:
        """Bytes of one input number as the model sees it."""
        return self.as_numbers(self.inputs[:0]).element_size()

    def example(self, count: int) -> tuple[Tensor, Tensor]:
        """A few rows from all over the data, as the model will see them."""
        rows = spread(len(self.inputs), count).to(self.inputs.device)
        return self.as_numbers(self.inputs[rows]), self.targets[rows]

    def one_ue(self, count: int) -> "Batch":
        """A few rows as the batch of one UE."""
        inputs, targets = (array.unsqueeze(0) for array in self.example(count))
        weights = sample_weights(targets, np.array([inputs.shape[1]]), self.mass)
        return Batch(inputs, targets, weights.to(self.dtype))

    def converted(self) -> "Samples":
        """The same samples with bytes turned into numbers once and for all."""
        return replace(self, inputs=self.as_numbers(self.inputs))

    def as_numbers(self, inputs: Tensor) -> Tensor:
        """Bytes as numbers in [0, 1]; anything else unchanged."""
        return inputs.to(self.dtype).div_(255) if inputs.dtype == torch.uint8 else inputs

    def batch(self, ues: IntArray, index: IntArray, counts: IntArray) -> "Batch":
        """Samples `index` [u, n] of UEs, of which the first `counts` [u] count; the rest are padding."""
        own = np.minimum(self.shards.rows(ues, index), len(self.inputs) - 1)  # an empty shard may point past the end
        rows = torch.from_numpy(own).to(self.inputs.device)
        taken = self.inputs.index_select(0, rows.view(-1))  # several times faster than inputs[rows]
        inputs = self.as_numbers(taken).view(*rows.shape, *self.inputs.shape[1:])
        targets = self.targets[rows]
        return Batch(inputs, targets, sample_weights(targets, counts, self.mass).to(self.dtype))

    def looked_up(self, table: ProductTable, ues: IntArray, width: int) -> "Batch":
        """The whole shards of some UEs, padded to one width, as rows of a table."""
        counts = self.shards.sizes[ues]
        shared = table.take(ues, counts, width)
        targets = self.targets[shared.index]
        return Batch(self.inputs[:0], targets, sample_weights(targets, counts, self.mass).to(self.dtype), shared=shared)


@dataclass(frozen=True)
class Batch:
    """A rectangle of samples: inputs [u, n, ...], targets [u, n, ...], weights [u, n] of samples in a UE's mean."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    gram: Tensor | None = None  # [u, n, n]: inner products of what a first dense layer sees of each UE, where kept
    shared: SharedRows | None = None  # stands for the inputs, where UEs share them: these are empty then

    def select(self, ues: IntArray) -> "Batch":
        """Some UEs of the rectangle: a view where they lie side by side, a copy otherwise."""
        first, count = int(ues[0]), len(ues)
        if np.array_equal(ues, np.arange(first, first + count)):
            return self._mapped(lambda array: array[first : first + count])
        place = torch.from_numpy(ues).to(self.inputs.device)
        return self._mapped(lambda array: array[place])

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Inputs, targets and weights alone, changed alike."""
        return Batch(change(self.inputs), change(self.targets), change(self.weights))

    def aligned(self) -> "Batch":
        """The same numbers, each array beginning where a new one would."""
        return self._mapped(lambda array: array.clone() if array.data_ptr() % _ALIGNED_BYTES else array)

    def _mapped(self, take: Callable[[Tensor], Tensor]) -> "Batch":
        gram = None if self.gram is None else take(self.gram)
        return Batch(take(self.inputs), take(self.targets), take(self.weights), gram)


def sample_weights(targets: Tensor, counts: IntArray, mass: Mass | None) -> Tensor:
    """Weights [u, n] of samples in each UE's mean, in float64: the first `counts` count, the rest are padding.

    Samples that count alike have 1/count; otherwise each has one over the sum of the masses, or 0 where nothing counts.
    """
    real = torch.from_numpy(np.arange(targets.shape[1]) < counts[:, None]).to(targets.device)
    own = real.double()
    if mass is not None:
        own *= mass(targets.flatten(0, 1)).view(real.shape)
    total = own.sum(1, keepdim=True)
    return torch.where(real & (total != 0), 1 / total, 0.0)


def loss_weights(targets: Tensor, weights: Tensor, mass: Mass | None) -> Tensor:
    """Weights [n] of samples in one UE's loss, from those of a plain mean: divided by the mass of what counts."""
    if mass is None:
        return weights
    total = (weights * mass(targets).to(weights.dtype)).sum()
    return torch.where(total != 0, weights / total, 0.0)


def weighed_rows(targets: Tensor, weights: Tensor, mass: Mass | None) -> Tensor:
    """The same for many UEs, [u, n]."""
    if mass is None:
        return weights
    return torch.stack([loss_weights(*pair, mass) for pair in zip(targets, weights, strict=True)])


def spread(total: int, count: int) -> Tensor:
    """At most `count` places from 0 to `total - 1`, evenly far apart."""
    return torch.linspace(0, total - 1, min(count, total), dtype=torch.float64).long()


def whole_index(counts: IntArray, width: int) -> IntArray:
    """All samples of each UE in order, [u, width]; padding repeats the first sample, whose values are safe."""
    index = np.broadcast_to(np.arange(width), (len(counts), width))
    return np.where(index < counts[:, None], index, 0)


def drawn_index(uniform: FloatArray, sizes: IntArray) -> IntArray:
    """Distinct samples from uniform draws [u, b]: the first steps of a Fisher-Yates shuffle of each UE's shard.

    A shard with fewer than `b` samples is taken whole; what lies beyond is padding.
    """
    count, width = uniform.shape
    deck = np.tile(np.arange(max(int(sizes.max(initial=1)), width)), (count, 1))
    ue = np.arange(count)
    for step in range(width):
        left = sizes - step
        pick = np.where(left > 0, step + (uniform[:, step] * left).astype(np.int64), step)
        chosen = deck[ue, pick]
        deck[ue, pick] = deck[:, step]
        deck[:, step] = chosen
    drawn = deck[:, :width]
    return np.where(np.arange(width) < sizes[:, None], drawn, 0)


def member_draws(stream: Stream, ues: IntArray, per_member: int, *, single: bool = False) -> NDArray[Any]:
    """Uniform draws [u, per_member]: UE i owns words `i * per_member ..` of the stream, whoever else takes part.

    `single` ones are float32 and take half a word each.
    """
    members, back = np.unique(ues, return_inverse=True)
    longest_gap = min(_LONGEST_GAP, max(_MOST_SKIPPED // max(per_member, 1), 1))
    runs = np.split(members, np.flatnonzero(np.diff(members) > longest_gap) + 1)
    drawn = stream.uniform32 if single else stream.uniform
    parts = [_run_draws(drawn, run, per_member) for run in runs if len(run)]
    return np.concatenate(parts)[back] if parts else np.empty((0, per_member))


def _run_draws(drawn: Callable[[int, int], NDArray[Any]], run: IntArray, per_member: int) -> NDArray[Any]:
    first, count = int(run[0]), int(run[-1] - run[0]) + 1
    words = drawn(count * per_member, first * per_member)
    return words.reshape(count, per_member)[run - first]


def buckets(sizes: IntArray, max_padding: float) -> list[IntArray]:
    """Members in the fewest groups of like size whose padding to the largest adds at most this share in total."""
    order = np.argsort(sizes, kind="stable")
    ends = _candidate_ends(sizes[order])
    held = int(sizes.sum())
    cost, chosen = sizes[order[ends - 1]] * ends, [np.zeros(len(ends), dtype=np.int64)]
    while cost[-1] > (1 + max_padding) * held:
        # one more group: all up to `ends[i]` as before, then one group up to `ends[j]`, for the best i < j
        more = cost[:, None] + sizes[order[ends - 1]] * (ends - ends[:, None])
        more = np.where(np.arange(len(ends))[:, None] < np.arange(len(ends)), more, np.iinfo(np.int64).max)
        chosen.append(np.argmin(more, axis=0) + 1)
        cost = np.minimum(cost, more.min(axis=0))
    return [np.sort(order[a:b]) for a, b in _cut(ends, chosen)]


def _candidate_ends(ordered: IntArray) -> IntArray:
    """Where a group may end: at every change of size, or every so many members where there are very many sizes."""
    ends = np.append(np.flatnonzero(np.diff(ordered)) + 1, len(ordered))
    return ends if len(ends) <= _MOST_CANDIDATES else ends[np.linspace(0, len(ends) - 1, _MOST_CANDIDATES).astype(int)]


def _cut(ends: IntArray, chosen: list[IntArray]) -> list[tuple[int, int]]:
    """The groups (first, end) that the recorded choices lead to, read from the last one back."""
    place, cuts = len(ends), []
    for previous in reversed(chosen):
        if place == 0:
            break
        before = int(previous[place - 1])
        if before == place:  # this choice would add an empty group
            continue
        cuts.append((int(ends[before - 1]) if before else 0, int(ends[place - 1])))
        place = before
    return cuts[::-1]
