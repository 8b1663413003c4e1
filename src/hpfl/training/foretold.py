"""What coding will add to edges' updates, told before anything is sent: at their UEs, and where they code again.

A UE knows the variance of its coding and sends it in one float for each entry of the menu. The edge adds up
`sum_i share_i^2 var_i`, since UEs draw independently. Its own coding is of the mean that then arrives, which nobody has
yet. An unbiased codec adds a variance in proportion to what it is given: that of the mean as it is, times
`1 + noise / |mean|^2`. What one UE alone has sent is coded already, and coding it again adds nothing: that is taken
times `1 - sum_i share_i^2`. `tests/simulation/test_coding_menu.py` holds the estimate against coded updates.

A codec that feeds errors back adds no noise: what it leaves out comes later, and is in the next update already. To call
it noise would take it out of what updates say of the loss.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import Draws, Uplink
from hpfl.learning.coding import BY_EDGE, Travelling
from hpfl.learning.engine import shares_of
from hpfl.learning.method import num_travelling
from hpfl.learning.sending import Sending
from hpfl.rng import Streams
from hpfl.training.edge_round import EdgeResult, Participants


@dataclass(frozen=True)
class Foretold:
    """The chains of the menu whose noise is foretold, and whether edges code what they send on (a `backhaul`)."""

    chains: tuple[Uplink, ...]
    travelling: Travelling
    streams: Streams
    backhaul: bool = True

    def noise(
        self, who: Participants, result: EdgeResult, errors: torch.Tensor | None, *, edges: IntArray, base_round: int
    ) -> FloatArray:
        """The noise [E, C] of the updates that edges have made with their UEs; `errors` [E, U] are the edges' own."""
        assert result.noise is not None
        drawn = np.where(self._random, result.noise, 0.0)
        if not self.backhaul:
            return drawn
        draws = Draws(self.streams, base_round, edges, result.update.device, BY_EDGE)
        own = self.travelling.variance(self.chains, result.update, errors, draws).cpu().numpy()
        alone = np.bincount(who.edge_of, np.square(shares_of(who.edge_of, who.num_edges, who.weights)))
        again = own * self._growth(result) * (1.0 - alone)[:, None]
        return np.asarray(drawn + np.where(self._random, again, 0.0))

    def usual(self, sending: Sending) -> tuple[float, ...]:
        """What each chain adds to normal numbers, over their squared norm: a guess before anybody has computed."""
        found = self.usual_errors(sending)
        return tuple(one if drawn else 0.0 for one, drawn in zip(found, self._random, strict=True))

    def usual_errors(self, sending: Sending) -> tuple[float, ...]:
        """What of normal numbers does not arrive as it is, over their squared norm, also if it comes later."""
        n = num_travelling(sending.method, sending.spec)
        draws = Draws(self.streams, 0, np.zeros(1, np.int64), torch.device("cpu"), "codec/usual")
        numbers = draws.normal(n)
        kept = [numbers.new_zeros(1, chain.numbers_kept(n)) for chain in self.chains]
        found = [float(chain.variance(numbers, row, draws)[0]) for chain, row in zip(self.chains, kept, strict=True)]
        return tuple(one / float(numbers.square().sum()) for one in found)

    @property
    def _random(self) -> BoolArray:
        """Whether each chain [C] adds noise: what is drawn anew and never made up for."""
        return np.array([not chain.feeds_back for chain in self.chains])

    def _growth(self, result: EdgeResult) -> FloatArray:
        """How much larger, squared, a mean is with its UEs' noise, [E, C]."""
        assert result.noise is not None
        importance = np.maximum(result.importance, np.finfo(np.float64).tiny)[:, None]
        return np.asarray(1.0 + result.noise / importance)
