"""Steps of an uplink as a user would write them: 8-bit rounding, a clip, noise, and the largest entries alone."""

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from hpfl.learning import Draws, Side, SideField, UplinkStep, row_norms


class Rounding(UplinkStep):
    """Each number as one of 255 levels between minus and plus the largest, at random so that the mean is right."""

    def length(self, n: int) -> int:
        return 0

    def side(self, n: int) -> tuple[SideField, ...]:
        return SideField("largest", torch.float32, 1, 32), SideField("level", torch.uint8, n, 8, below=255)

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        largest = numbers.abs().amax(1, keepdim=True).float()
        steps = 127 * numbers / largest.clamp(min=torch.finfo(torch.float32).tiny)
        level = (steps.double() + draws.uniform(numbers.shape[1])).floor().clamp(-127, 127) + 127
        return numbers[:, :0], {"largest": largest, "level": level}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        return (side["level"].to(numbers.dtype) - 127) * (side["largest"] / 127).to(numbers.dtype)


@dataclass(frozen=True)
class Clip(UplinkStep):
    """No update longer than `most`."""

    most: float

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        scale = (self.most / row_norms(numbers).clamp(min=self.most)).to(numbers.dtype)
        return numbers * scale, {}, kept


@dataclass(frozen=True)
class Noise(UplinkStep):
    """Gaussian noise of a standard deviation."""

    deviation: float

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        return numbers + (self.deviation * draws.normal(numbers.shape[1])).to(numbers.dtype), {}, kept


@dataclass(frozen=True)
class Largest(UplinkStep):
    """The largest entries alone, with their places; what is left unsent is added to the next update."""

    share: float

    def length(self, n: int) -> int:
        return ceil(self.share * n)

    def side(self, n: int) -> tuple[SideField, ...]:
        return (SideField("place", torch.int64, self.length(n), max((n - 1).bit_length(), 1), below=n),)

    def numbers_kept(self, n: int) -> int:
        return n

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        whole = numbers + kept
        order = torch.sort(whole.abs(), dim=1, descending=True, stable=True).indices
        place = order[:, : self.length(numbers.shape[1])].sort(1).values
        return whole.gather(1, place), {"place": place}, whole.scatter(1, place, 0.0)

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        return numbers.new_zeros(len(numbers), n).scatter(1, side["place"], numbers)
