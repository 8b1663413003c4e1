"""How sketches and updates look under masks, and what an edge reads from their sums: the simulator's whole numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hpfl.arrays import FloatArray
from hpfl.cell_sums import cell_sum_of, most_weight
from hpfl.config import Experiment
from hpfl.deployment.secure_wire import SKETCH, UPDATE, context_of
from hpfl.deployment.wire import Tag, Vector, VectorSpec
from hpfl.learning import Draws
from hpfl.learning.masking.cell_sum import Agreed, CellSum
from hpfl.learning.masking.fixed_point import MOST_WORD_BITS, num_levels
from hpfl.rng import Streams
from hpfl.secrecy import Instance, Session, packed, packed_bytes
from hpfl.training.edge_round import draw_key

if TYPE_CHECKING:
    from hpfl.deployment.node import SharedWork

Words = NDArray[np.uint64]

_SKETCH_BITS = 48
"""Of a number of a sketch: so fine that what is checked with sketches sees nothing of it."""


@dataclass(frozen=True)
class SecureFormat:
    """The sums of a cell; `agreed` of its methods is what the edge has sent with the opening of an attempt."""

    config: Experiment
    update: CellSum
    sketch: CellSum
    num_parameters: int
    dtype: np.dtype[np.float64]

    @staticmethod
    def of(work: "SharedWork") -> "SecureFormat":
        """That of an experiment; node's files may allow of more samples than the experiment deals."""
        config, declared = work.config, work.bounds.num_samples
        update = cell_sum_of(config, work.sending, most_samples=declared)
        assert update is not None  # asked where UEs send sums alone
        weight = most_weight(config, declared)
        bits = min(_SKETCH_BITS, MOST_WORD_BITS - weight.bit_length())
        largest = work.sketches.largest(work.bounds.update_norm)
        sketch = CellSum(length=work.sketch_width, most_weight=weight, largest=largest, count=num_levels(bits))
        return SecureFormat(config, update, sketch, work.spec.length, work.spec.dtype)

    @property
    def update_spec(self) -> VectorSpec:
        """What an edge receives of a UE."""
        return VectorSpec(packed_bytes(self.update.num_words, self.update.bits), np.dtype(np.uint8))

    @property
    def room(self) -> float:
        """How far the sketch of a mean may be off the mean of the sketches: by what rounding to whole numbers adds."""
        return math.sqrt(self.num_parameters) * self._step(self.update) + math.sqrt(self.sketch.length) * self._step(
            self.sketch
        )

    def session(self, tag: Tag, *, edge: str, attempt: bytes, agreed: bytes, slots: int) -> Session:
        """What all members must agree on; sketches are asked for in the first of an edge's own rounds."""
        context = context_of(
            tag, fingerprint=self.config.fingerprint, edge=edge, attempt=attempt, agreed=agreed
        )
        update = Instance(UPDATE, self.update.num_words, self.update.bits)
        if tag.edge_round:
            return Session(context, slots, (update,))
        return Session(context, slots, (Instance(SKETCH, self.sketch.num_words, self.sketch.bits), update))

    def fitted(self, update: Vector) -> tuple[Vector, bool]:
        """An update as it can be sent, scaled down as a whole where a number is too large; whether it was."""
        peak = float(np.abs(update).max(initial=0.0))
        if peak <= self.config.secure.range:
            return update, False
        return (update * (self.config.secure.range / peak)).astype(update.dtype), True

    def update_words(self, update: Vector, weight: int, tag: Tag, number: int) -> Words:
        """What UE `number` adds up of an update."""
        return self._words(self.update, torch.from_numpy(update), weight, self._draws(tag, number, "cell"))

    def sketch_words(self, sketch: FloatArray, weight: int, tag: Tag, number: int) -> Words:
        """The same of a sketch."""
        return self._words(self.sketch, torch.from_numpy(sketch), weight, self._draws(tag, number, "cell/sketch"))

    def update_mean(self, total: Words, weight: int) -> FloatArray:
        """The mean of updates whose weights add up to `weight`."""
        return self._mean(self.update, total, weight, self.num_parameters)

    def sketch_mean(self, total: Words, weight: int) -> FloatArray:
        """The same of sketches."""
        return self._mean(self.sketch, total, weight, self.sketch.length)

    def _draws(self, tag: Tag, number: int, purpose: str) -> Draws:
        key = draw_key(tag.base_round, tag.edge_round)
        return Draws(Streams(self.config.training.seed), key, np.array([number]), torch.device("cpu"), purpose)

    @staticmethod
    def _words(of: CellSum, numbers: torch.Tensor, weight: int, draws: Draws) -> Words:
        found = of.words(numbers.unsqueeze(0), torch.tensor([weight]), Agreed(), draws)
        return found.words[0].numpy().astype(np.uint64)

    @staticmethod
    def _mean(of: CellSum, total: Words, weight: int, length: int) -> FloatArray:
        found = of.mean(torch.from_numpy(total.astype(np.int64)).unsqueeze(0), torch.tensor([weight]), Agreed(), length)
        return np.asarray(found.update[0].numpy())

    @staticmethod
    def _step(of: CellSum) -> float:
        """The distance of two levels."""
        return 2.0 * of.largest / (of.count - 1)


def made_format(work: "SharedWork") -> SecureFormat:
    """That of a node whose experiment asks for secure sums."""
    assert work.secure is not None
    return work.secure


def whole_weight(config: Experiment, num_samples: int) -> int:
    """A UE's weight in a sum."""
    return 1 if config.training.weighting == "uniform" else num_samples


def packed_words(words: Words, bits: int) -> Vector:
    """Words as the bytes of a vector."""
    return np.frombuffer(packed(words, bits), dtype=np.uint8)
