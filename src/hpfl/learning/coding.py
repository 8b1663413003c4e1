"""Coding at the moment of upload: a chain of codecs for whoever sends, and what it will add, asked beforehand."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpfl.arrays import FloatArray
from hpfl.learning.draws import Draws
from hpfl.learning.uplink import IDENTITY, Tried, Uplink

BY_UE, BY_EDGE, BY_CLOUD = "codec/ue", "codec/edge", "codec/cloud"
"""Purposes of the draws of those who code: keyed by the base round (by the round at the cloud) and by their number."""


@dataclass(frozen=True)
class Coding:
    """What is asked of UEs' uploads: the chain that they send over now, and the chains whose variance is foretold.

    `clip` [groups] is the norm to which each update of a group is scaled down before it is coded; None: none is.
    """

    chain: Uplink = IDENTITY
    foretold: tuple[Uplink, ...] = ()
    clip: FloatArray | None = None

    @property
    def asks(self) -> bool:
        """Whether anything is asked."""
        return self.clip is not None or self.codes

    @property
    def codes(self) -> bool:
        """Whether a chain is asked of."""
        return bool(self.foretold) or not self.chain.is_identity

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The steps of all chains: what coding takes of the memory goes by them."""
        chains = tuple(tuple(name for name, _ in chain.steps) for chain in (self.chain, *self.foretold))
        return chains if self.clip is None else (*chains, ("clip",))


UNCODED = Coding()
"""Updates are computed and not sent yet."""


@dataclass(frozen=True)
class Travelling:
    """The numbers of an update that are sent, of those who code; `places` [n], None: all."""

    places: Tensor | None = None

    def coded(self, chain: Uplink, updates: Tensor, kept: Tensor | None, draws: Draws) -> tuple[Tensor, Tensor | None]:
        """What arrives of updates [u, P], 0 where nothing travels, and what their senders keep now, [u, U].

        A row that is wider than the chain needs serves several chains; each takes the first of it.
        """
        own = self._own(updates)
        used = chain.numbers_kept(own.shape[1])
        arrived, left = chain.send(own, _first(kept, own, used), draws)
        rows = kept
        if used:
            rows = left if kept is None else torch.cat([left.to(kept), kept[:, used:]], 1)
        return self._whole(arrived, updates), rows

    def message(self, chain: Uplink, update: Tensor, kept: Tensor | None, draws: Draws) -> bytes:
        """The bytes of one update [1, P], coded as `coded` does it: coding draws the same when it is done again."""
        own = self._own(update)
        used = chain.numbers_kept(own.shape[1])
        return chain.to_bytes(own[0], _first(kept, own, used)[0], draws)[0]

    def variance(self, chains: tuple[Uplink, ...], updates: Tensor, kept: Tensor | None, draws: Draws) -> Tensor:
        """What each chain would add to updates [u, P], [u, C] in float64: `E |arrived - (u + e)|^2`."""
        own = self._own(updates)
        tried: Tried = {}
        rows = [_first(kept, own, chain.numbers_kept(own.shape[1])) for chain in chains]
        found = [chain.variance(own, row, draws, tried) for chain, row in zip(chains, rows, strict=True)]
        return torch.stack(found, 1)

    def _own(self, updates: Tensor) -> Tensor:
        return updates if self.places is None else updates[:, self.places]

    def _whole(self, own: Tensor, like: Tensor) -> Tensor:
        return own if self.places is None else torch.zeros_like(like).index_copy_(1, self.places, own)


def _first(kept: Tensor | None, own: Tensor, used: int) -> Tensor:
    """The first `used` numbers of each row as the chain takes them; zeros of those who begin."""
    return own.new_zeros(len(own), used) if kept is None else kept[:, :used].to(own)
