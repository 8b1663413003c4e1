"""What coding will add to edges' updates, told before anything is sent: at their UEs, and where they code again.

A UE knows the variance of its coding and sends it in one float for each entry of the menu. The edge adds up
`sum_i share_i^2 var_i`, since UEs draw independently. Its own coding is of the mean that then arrives, which nobody has
yet. An unbiased codec adds a variance in proportion to what it is given: that of the mean as it is, times
`1 + noise / |mean|^2`. What one UE alone has sent is coded already, and coding it again adds nothing: that is taken
times `1 - sum_i share_i^2`. `tests/simulation/test_coding_menu.py` holds the estimate against coded updates.

A codec that feeds errors back adds no noise: what it leaves out comes later, and is in the next update already. To call
it noise would take it out of what updates say of the loss. It delays, by as many rounds as it would delay numbers with
a tail like that of updates.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.learning import Draws, Uplink
from hpfl.learning.coding import BY_EDGE, Travelling
from hpfl.learning.delays import delay
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

    @property
    def asked(self) -> tuple[Uplink, ...]:
        """The chains whose noise has to be asked for: those that add some; all, where none does."""
        return tuple(chain for chain in self.chains if not chain.feeds_back) or self.chains

    def noise(
        self, who: Participants, result: EdgeResult, errors: torch.Tensor | None, *, edges: IntArray, base_round: int
    ) -> FloatArray:
        """The noise [E, C] of the updates that edges have made with their UEs; `errors` [E, U] are the edges' own."""
        assert result.noise is not None
        found = np.zeros((len(edges), len(self.chains)))
        if not self._random.any():
            return found
        drawn = result.noise
        if self.backhaul:
            draws = Draws(self.streams, base_round, edges, result.update.device, BY_EDGE)
            own = self.travelling.variance(self.asked, result.update, errors, draws).cpu().numpy()
            alone = np.bincount(who.edge_of, np.square(shares_of(who.edge_of, who.num_edges, who.weights)))
            drawn = drawn + own * self._growth(result) * (1.0 - alone)[:, None]
        found[:, self._random] = drawn
        return found

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

    def delays(self, sending: Sending) -> tuple[float, ...]:
        """Rounds by which each chain delays what it is given, 0 for those that do not feed back.

        Updates have heavy tails: `E|x|^2 / E x^2` is 0.10 to 0.18 for UEs' updates of the paper's MLP, 0.64 for normal
        numbers, and 0.17 for their cubes, which stand for updates here.
        """
        n = num_travelling(sending.method, sending.spec)
        draws = Draws(self.streams, 0, np.zeros(1, np.int64), torch.device("cpu"), "codec/usual")
        cubes = draws.normal(n).to(torch.float64) ** 3
        return tuple(float(delay(chain, cubes, draws)[0]) for chain in self.chains)

    @property
    def _random(self) -> BoolArray:
        """Whether each chain [C] adds noise: what is drawn anew and never made up for."""
        return np.array([not chain.feeds_back for chain in self.chains])

    def _growth(self, result: EdgeResult) -> FloatArray:
        """How much larger, squared, a mean is with its UEs' noise, [E, C]."""
        assert result.noise is not None
        importance = np.maximum(result.importance, np.finfo(np.float64).tiny)[:, None]
        return np.asarray(1.0 + result.noise / importance)
