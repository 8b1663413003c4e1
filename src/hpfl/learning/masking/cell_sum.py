"""What UEs of a cell add up under masks: the words of their updates, and the mean that the edge reads from the sum.

The simulator and a deployed cell use the same two functions. A simulated one leaves the masks out, for they cancel.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from hpfl.learning.codecs.random_k import RandomK
from hpfl.learning.draws import Draws
from hpfl.learning.faults import LearningError, NonFiniteUpdateError
from hpfl.learning.masking.agreed_scales import next_scales
from hpfl.learning.masking.fixed_point import levels, mean, num_levels, word_bits

LEVELS, PLACES = "masking/levels", "masking/places"
"""Purposes of the draws: of a UE that rounds, keyed by its number, and of a cell's places, by that of its edge."""


@dataclass(frozen=True)
class Agreed:
    """What a cell knows before it masks: rows of scales [r, buckets], and of seeds of places [r, 1]; None: neither."""

    scales: Tensor | None = None
    seeds: Tensor | None = None

    def rows(self, at: Tensor) -> "Agreed":
        """Those of some cells, or one for each of their UEs."""
        return Agreed(*(None if own is None else own[at] for own in (self.scales, self.seeds)))


@dataclass(frozen=True)
class CellWords:
    """Words int64 [u, num_words] below 2^bits, and which UEs [u] had to scale their update down, all of it."""

    words: Tensor
    scaled: Tensor


@dataclass(frozen=True)
class CellMean:
    """Means [E, P] in float64, and the share [E, buckets] of each cell that was clipped (no buckets: empty)."""

    update: Tensor
    clipped: Tensor


@dataclass(frozen=True)
class CellSum:
    """`length` numbers of an update between `-largest` and `largest`, as `count` levels, in a cell of `most_weight`.

    With a `bucket`, levels lie between scales that the cell has agreed on, at `first` all alike. `sparse` leaves
    numbers out, the same of all UEs. `places` [length] are the parameters that travel; None: all.
    """

    length: int
    most_weight: int
    largest: float
    count: int = num_levels(24)
    bucket: int = 0
    first: float = 0.1
    sparse: RandomK | None = None
    places: Tensor | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        assert self.bits  # refuses words that are too long

    @cached_property
    def bits(self) -> int:
        """Bits of a word."""
        return word_bits(self.count, self.most_weight)

    @property
    def coded(self) -> bool:
        """Whether uploads are coded by codecs, and computed without them before."""
        return bool(self.bucket) or self.sparse is not None

    @property
    def num_numbers(self) -> int:
        """Numbers that are sent of an update."""
        return self.length if self.sparse is None else self.sparse.length(self.length)

    @property
    def num_scales(self) -> int:
        """Scales that the cell agrees on, each with a word that counts those who were clipped."""
        return -(-self.num_numbers // self.bucket) if self.bucket else 0

    @property
    def num_words(self) -> int:
        """Words of an upload."""
        return self.num_numbers + self.num_scales

    @property
    def upload_bits(self) -> int:
        """Bits of an upload, without those of the protocol itself."""
        return self.num_words * self.bits

    @property
    def step(self) -> float:
        """The distance of two levels between fixed limits."""
        return 2.0 * self.largest / (self.count - 1)

    @property
    def rounding(self) -> float:
        """By how much rounding to levels between fixed limits may change an update, at most, in its norm."""
        return self.step * math.sqrt(self.num_numbers)

    @property
    def least_scale(self) -> float:
        """The distance of levels of 24 bits: no scale is smaller."""
        return self.largest / (num_levels(24) // 2)

    def first_scales(self, device: torch.device | str = "cpu") -> Tensor | None:
        """What a cell agrees on before its first sum, [buckets] in float32."""
        if not self.bucket:
            return None
        return torch.full((self.num_scales,), self.first, device=device, dtype=torch.float32)

    def next_scales(self, scales: Tensor, clipped: Tensor) -> Tensor:
        """What it agrees on after a sum."""
        return next_scales(scales, clipped, least=self.least_scale, most=self.largest)

    def seeds(self, draws: Draws) -> Tensor | None:
        """Seeds of places [r, 1] of edges, or of the edges of UEs, by draws of theirs."""
        return None if self.sparse is None else self.sparse.seeds(draws.of(PLACES))

    def words(self, updates: Tensor, weights: Tensor, agreed: Agreed, draws: Draws) -> CellWords:
        """What UEs send of updates [u, P] with whole weights [u]; `agreed` has a row for each."""
        own = updates if self.places is None else updates[:, self.places]
        if own.shape[1] != self.length:
            raise LearningError(f"an update to be masked has {own.shape[1]} numbers; wanted {self.length}")
        peak = own.abs().amax(1, keepdim=True).to(torch.float64)
        if not bool(torch.isfinite(peak).all()):
            raise NonFiniteUpdateError(
                "an update to be masked is not finite; lower learning.inner_lr or learning.outer_lr"
            )
        if self.sparse is not None and agreed.seeds is not None:
            own = own.gather(1, self.sparse.places_of(agreed.seeds, self.length))
            peak = own.abs().amax(1, keepdim=True).to(torch.float64)
        fit = (self.largest / peak).clamp_(max=1.0)
        numbers = own.to(torch.float64, copy=True).mul_(fit)
        scale = self._scale(agreed, len(own), own.device)
        found = levels(numbers, self._spread(scale), self.count, draws.of(LEVELS).uniform32(own.shape[1]))
        if self.bucket:
            found = torch.cat([found, self._peaks(numbers) > scale], 1)
        return CellWords(found * weights.to(found).unsqueeze(1), peak.squeeze(1) > self.largest)

    def mean(self, total: Tensor, weight: Tensor, agreed: Agreed, num_parameters: int) -> CellMean:
        """What edges read from sums of words, int64 [E, num_words], whose weights add up to `weight`, int64 [E]."""
        heaviest = int(weight.max())
        if heaviest > self.most_weight or int(weight.min()) < 1:
            raise LearningError(
                f"a cell's weights add up to {heaviest if heaviest > 1 else int(weight.min())}; wanted 1 to "
                f"{self.most_weight}, for which its words were made"
            )
        each, scale = weight.unsqueeze(1), self._scale(agreed, len(total), total.device)
        found = mean(total[:, : self.num_numbers], each, self._spread(scale), self.count)
        if self.sparse is not None and agreed.seeds is not None:
            found = found * self.sparse.sizes(self.length, found.device)
            found = self.sparse.decode(found, {"seed": agreed.seeds}, self.length)
        if self.places is not None:
            found = found.new_zeros(len(found), num_parameters).index_copy_(1, self.places, found)
        return CellMean(found, total[:, self.num_numbers :].to(torch.float64) / each)

    def _scale(self, agreed: Agreed, rows: int, device: torch.device) -> Tensor:
        """Scales [rows, buckets] in float64; of all numbers alike, [1, 1], where nothing is agreed on."""
        if not self.bucket:
            return torch.full((1, 1), self.largest, dtype=torch.float64, device=device)
        scales = agreed.scales
        if scales is None or scales.shape != (rows, self.num_scales):
            found = None if scales is None else tuple(scales.shape)
            raise LearningError(f"the scales of a cell have shape {found}; wanted {(rows, self.num_scales)}")
        return scales.to(device=device, dtype=torch.float64)

    def _spread(self, scale: Tensor) -> Tensor:
        """The scale of each number."""
        return scale.repeat_interleave(self.bucket, 1)[:, : self.num_numbers] if self.bucket else scale

    def _peaks(self, numbers: Tensor) -> Tensor:
        """The largest magnitude in each bucket, [u, buckets]."""
        missing = self.num_scales * self.bucket - numbers.shape[1]
        padded = torch.nn.functional.pad(numbers.abs(), (0, missing))
        return padded.view(len(numbers), self.num_scales, self.bucket).amax(2)
