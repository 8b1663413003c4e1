"""Draws of a UE that are made before they are asked for: they depend on the seed, the round and the UE alone."""

from dataclasses import dataclass, field

from torch import Tensor

from hpfl.learning import Draws
from hpfl.learning.masking.cell_sum import LEVELS


@dataclass(frozen=True)
class DrawsAhead(Draws):
    """The same draws; what has been `made` is handed out as it is."""

    made: dict[tuple[str, int], Tensor] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of_update(draws: Draws, count: int) -> "DrawsAhead":
        """Draws of which those that round `count` numbers are made now."""
        ahead = DrawsAhead(draws.streams, draws.key, draws.ues, draws.device, draws.purpose)
        rounding = ahead.of(LEVELS)
        ahead.made[rounding.purpose, count] = rounding.uniform32(count)
        return ahead

    def uniform32(self, count: int) -> Tensor:
        """Those made before, or made now."""
        found = self.made.get((self.purpose, count))
        return super().uniform32(count) if found is None else found
