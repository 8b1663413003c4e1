"""Uplink step `eight-bits`: numbers in eight bits, a scale for each block of them (QSGD, Alistarh et al., 2017)."""

import torch
from torch import Tensor

from hpfl import part
from hpfl.learning import Draws, Side, SideField
from hpfl.options import Options, option


class EightBitsOptions(Options):
    """Options of uplink step `eight-bits`."""

    block: int = option(512, "numbers that share a scale", ge=1)


@part(options=EightBitsOptions)
class EightBits:
    """Rounds at random to one of 255 levels, so that the mean is right: numbers travel in eight bits each."""

    def __init__(self, *, options: EightBitsOptions) -> None:
        self.block = options.block

    def length(self, n: int) -> int:
        """Everything travels in the side fields."""
        return 0

    def side(self, n: int) -> tuple[SideField, ...]:
        """A level of eight bits for each number, and a scale of 32 bits for each block."""
        blocks = -(-n // self.block)
        return SideField("level", torch.int8, n, 8), SideField("scale", torch.float32, blocks, 32)

    def numbers_kept(self, n: int) -> int:
        """Nothing: what is lost in one round is not made up for in the next."""
        return 0

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """Levels -127 to 127 of each block's greatest magnitude, rounded up as often as the rest demands."""
        padded = torch.nn.functional.pad(numbers, (0, -numbers.shape[1] % self.block))
        scale = (padded.unflatten(1, (-1, self.block)).abs().amax(2) / 127).to(torch.float32)
        spread = self._spread(scale, numbers.shape[1]).to(torch.float64)
        exact = torch.where(spread > 0, numbers / spread, 0.0)
        level = torch.floor(exact + draws.uniform(numbers.shape[1])).clamp(-127, 127)
        return numbers[:, :0], {"level": level.to(torch.int8), "scale": scale}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """Level times scale."""
        return (side["level"].to(torch.float32) * self._spread(side["scale"], n)).to(numbers.dtype)

    def _spread(self, scale: Tensor, n: int) -> Tensor:
        return scale.repeat_interleave(self.block, dim=1)[:, :n]
