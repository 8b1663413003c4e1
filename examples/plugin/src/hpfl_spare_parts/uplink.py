"""Uplink step `eight-bits`: numbers in eight bits, a scale for each block of them (QSGD, Alistarh et al., 2017)."""

import torch
from torch import Tensor

from hpfl import part
from hpfl.learning import Draws, Side, SideField, UplinkStep
from hpfl.options import Options, option


class EightBitsOptions(Options):
    """Options of uplink step `eight-bits`."""

    block: int = option(512, "numbers that share a scale", ge=1)


@part(options=EightBitsOptions)
class EightBits(UplinkStep):
    """Numbers rounded at random to one of 255 levels, so that they are right in the mean, in eight bits each."""

    def __init__(self, *, options: EightBitsOptions) -> None:
        self.block = options.block

    def length(self, n: int) -> int:
        """No number is handed on: everything travels in the side fields."""
        return 0

    def side(self, n: int) -> tuple[SideField, ...]:
        """A level of eight bits for each number, and a scale of 32 bits for each block."""
        return SideField("level", torch.int8, n, 8), SideField("scale", torch.float32, -(-n // self.block), 32)

    def encode(self, numbers: Tensor, kept: Tensor, draws: Draws) -> tuple[Tensor, Side, Tensor]:
        """Levels -127 to 127 of each block's greatest magnitude, rounded up as often as the rest demands."""
        n = numbers.shape[1]
        blocks = torch.nn.functional.pad(numbers, (0, -n % self.block)).unflatten(1, (-1, self.block))
        scale = (blocks.abs().amax(2).double() / 127).float()
        wide = self._spread(scale, n).double()
        level = torch.floor(torch.where(wide > 0, numbers / wide, 0.0) + draws.uniform(n)).clamp(-127, 127)
        return numbers[:, :0], {"level": level.to(torch.int8), "scale": scale}, kept

    def decode(self, numbers: Tensor, side: Side, n: int) -> Tensor:
        """Level times scale."""
        return (side["level"].float() * self._spread(side["scale"], n)).to(numbers.dtype)

    def _spread(self, scale: Tensor, n: int) -> Tensor:
        """Each number's scale, [u, n]."""
        return scale.repeat_interleave(self.block, dim=1)[:, :n]
