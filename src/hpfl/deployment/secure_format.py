"""How sketches and updates look under masks, and what an edge reads from their sums: the simulator's whole numbers."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from hpfl.arrays import FloatArray, IntArray
from hpfl.cell_sums import cell_sum_of, most_weight
from hpfl.config import Experiment
from hpfl.deployment.draws_ahead import DrawsAhead
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.secure_wire import SKETCH, UPDATE, bits_sent, context_of
from hpfl.deployment.wire import Tag, Vector, VectorSpec
from hpfl.learning import Draws
from hpfl.learning.masking.cell_sum import Agreed, CellMean, CellSum
from hpfl.learning.masking.fixed_point import MOST_WORD_BITS, num_levels
from hpfl.rng import Streams
from hpfl.secrecy import Instance, Session, packed, packed_bytes
from hpfl.secrecy.words import WordArray
from hpfl.training.edge_round import draw_key

if TYPE_CHECKING:
    from hpfl.deployment.node import SharedWork

_SKETCH_BITS = 48
"""Of a number of a sketch: so fine that what is checked with sketches sees nothing of it."""


@dataclass(frozen=True)
class CellAgreed:
    """What the UEs of an edge's cell know beforehand: its number, and the scales that it has sent."""

    edge: int
    scales: bytes = b""


@dataclass(frozen=True)
class SecureFormat:
    """The sums of a cell. `agreed` are the scales of a codec that the edge opens an attempt with, none where none are.

    Places that a codec leaves out are drawn for the cell of each `edge`, by its number.
    """

    config: Experiment
    update: CellSum
    sketch: CellSum
    num_parameters: int

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
        return SecureFormat(config, update, sketch, work.spec.length)

    @property
    def update_spec(self) -> VectorSpec:
        """What an edge receives of a UE."""
        return VectorSpec(packed_bytes(self.update.num_words, bits_sent(self.update.bits)), np.dtype(np.uint8))

    @property
    def room(self) -> float:
        """How far the sketch of a mean may be off the mean of the sketches: by what rounding to whole numbers adds.

        Sketches are of what UEs have before a codec makes less of it; nothing can be compared then.
        """
        if self.update.coded:
            return math.inf
        return math.sqrt(self.num_parameters) * self.update.step + math.sqrt(self.sketch.length) * self.sketch.step

    def session(self, tag: Tag, *, edge: str, attempt: bytes, agreed: bytes, slots: int) -> Session:
        """What all members must agree on; sketches are asked for in the first of an edge's own rounds."""
        context = context_of(tag, fingerprint=self.config.fingerprint, edge=edge, attempt=attempt, agreed=agreed)
        update = Instance(UPDATE, self.update.num_words, self.update.bits)
        if tag.edge_round:
            return Session(context, slots, (update,))
        return Session(context, slots, (Instance(SKETCH, self.sketch.num_words, self.sketch.bits), update))

    def fitted(self, update: Vector) -> Vector:
        """An update as it can be sent: itself, or scaled down as a whole where a number is too large."""
        peak = float(np.abs(update).max(initial=0.0))
        if peak <= self.config.secure.range:
            return update
        return (update * (self.config.secure.range / peak)).astype(update.dtype)

    def first_agreed(self) -> bytes:
        """What an edge opens its first attempt with."""
        scales = self.update.first_scales()
        return b"" if scales is None else scales.numpy().astype("<f4").tobytes()

    def next_agreed(self, agreed: bytes, clipped: torch.Tensor) -> bytes:
        """What it opens later ones with, after a sum in which such a share of the cell was `clipped`."""
        scales = self._scales(agreed)
        return b"" if scales is None else self.update.next_scales(scales, clipped).numpy().astype("<f4").tobytes()

    def check_agreed(self, agreed: bytes) -> None:
        """Refuse scales that no edge comes to."""
        wanted = 4 * self.update.num_scales
        if len(agreed) != wanted:
            raise RefusedError("shape", f"{len(agreed)} bytes of scales came, wanted {wanted}")
        scales = np.frombuffer(agreed, dtype="<f4")
        if not ((scales >= 0.5 * self.update.least_scale) & (scales <= 2.0 * self.update.largest)).all():
            raise RefusedError("range", "scales came that are not between the least and the largest of this experiment")

    def update_words(
        self,
        update: Vector,
        weight: int,
        tag: Tag,
        agreed: CellAgreed,
        number: int,
        levels: IntArray | None = None,
        draws: Draws | None = None,
    ) -> WordArray:
        """What UE `number` adds up of an update, as `levels` where it has made them itself, by `draws` made before."""
        if levels is not None:
            return (levels * weight).astype(np.uint64)
        draws = self._draws(tag, number, "cell") if draws is None else draws
        return _words_of(self.update, torch.from_numpy(update), weight, self._agreed(agreed, tag), draws)

    def sketch_words(self, sketch: FloatArray, weight: int, tag: Tag, number: int) -> WordArray:
        """The same of a sketch."""
        draws = self._draws(tag, number, "cell/sketch")
        return _words_of(self.sketch, torch.from_numpy(sketch), weight, Agreed(), draws)

    def update_mean(self, total: WordArray, weight: int, tag: Tag, agreed: CellAgreed) -> CellMean:
        """The mean of updates whose weights add up to `weight`, [1, P], and the share of UEs that were clipped."""
        return _mean_of(self.update, total, weight, self._agreed(agreed, tag), self.num_parameters)

    def sketch_mean(self, total: WordArray, weight: int) -> FloatArray:
        """The same of sketches."""
        return np.asarray(_mean_of(self.sketch, total, weight, Agreed(), self.sketch.length).update[0].numpy())

    def _agreed(self, agreed: CellAgreed, tag: Tag) -> Agreed:
        scales = self._scales(agreed.scales)
        seeds = self.update.seeds(self._draws(tag, agreed.edge, "cell"))
        return Agreed(None if scales is None else scales.unsqueeze(0), seeds)

    def _scales(self, agreed: bytes) -> torch.Tensor | None:
        if not self.update.num_scales:
            return None
        return torch.from_numpy(np.frombuffer(agreed, dtype="<f4").astype(np.float32))

    def _draws(self, tag: Tag, number: int, purpose: str) -> Draws:
        key = draw_key(tag.base_round, tag.edge_round)
        return Draws(Streams(self.config.training.seed), key, np.array([number]), torch.device("cpu"), purpose)


def draws_ahead(of: SecureFormat, tag: Tag, number: int) -> Draws:
    """The draws that round the update of UE `number`, made before there is one."""
    return DrawsAhead.of_update(of._draws(tag, number, "cell"), of.update.num_numbers)


def made_format(work: "SharedWork") -> SecureFormat:
    """That of a node whose experiment asks for secure sums."""
    assert work.secure is not None
    return work.secure


def whole_weight(config: Experiment, num_samples: int) -> int:
    """A UE's weight in a sum."""
    return 1 if config.training.weighting == "uniform" else num_samples


def packed_words(words: WordArray, bits: int) -> Vector:
    """Words as the bytes of a vector."""
    return np.frombuffer(packed(words, bits_sent(bits)), dtype=np.uint8)


def _words_of(of: CellSum, numbers: torch.Tensor, weight: int, agreed: Agreed, draws: Draws) -> WordArray:
    found = of.words(numbers.unsqueeze(0), torch.tensor([weight]), agreed, draws)
    return found.words[0].numpy().astype(np.uint64)


def _mean_of(of: CellSum, total: WordArray, weight: int, agreed: Agreed, length: int) -> CellMean:
    words = torch.from_numpy(total.astype(np.int64)).unsqueeze(0)
    return of.mean(words, torch.tensor([weight]), agreed, length)
