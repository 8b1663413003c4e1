"""The means of cells from sums of words: what UEs send under masks, which a simulation leaves out, for they cancel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning import CohortUpdates, Draws, Kept
from hpfl.learning.masking.cell_sum import Agreed, CellSum
from hpfl.rng import Streams
from hpfl.training.combine import RuleState

if TYPE_CHECKING:
    from hpfl.training.edge_round import Participants

SCALES = "scales"
"""What an edge remembers of the scales that its cell has agreed on."""
_AT_ONCE = {"cpu": 1 << 18}  # words that are made at once: what caches hold
_AT_ONCE_ELSEWHERE = 1 << 24


@dataclass(frozen=True)
class MaskedMeans:
    """Means [E, P], what UEs keep and edges remember now, and how many UEs had to scale their update down."""

    update: Tensor
    kept: Kept
    rules: Sequence[RuleState]
    num_scaled: int


@dataclass(frozen=True)
class MaskedRound:
    """An edge round of cells: what they add up, the draws it is rounded by, and how many UEs' updates fit at once."""

    cell: CellSum
    streams: Streams
    key: int
    most: int

    def means(
        self, updates: Callable[["Participants"], CohortUpdates], who: "Participants", like: Tensor
    ) -> MaskedMeans:
        """The cells' means of what `updates` gives of some of the participants; `like` has its length and type."""
        agreed, device = self._agreed(who, like.device), like.device
        total = torch.zeros(who.num_edges, self.cell.num_words, dtype=torch.int64, device=device)
        kept, num_scaled = who.kept.unwritten(), 0
        for at in _pieces(who.edge_of, self.most):
            some = who.some(at)
            own = updates(some)
            assert own.per_ue is not None
            kept.write(at, own.kept)
            num_scaled += self._add(total, own.per_ue, some, agreed)
        weight = np.bincount(who.edge_of, weights=who.weights, minlength=who.num_edges)
        weights = torch.from_numpy(weight.astype(np.int64)).to(device)
        found = self.cell.mean(total, weights, agreed, like.shape[-1])
        return MaskedMeans(found.update.to(like.dtype), kept, self._rules(who, agreed, found.clipped), num_scaled)

    def _add(self, total: Tensor, rows: Tensor, some: "Participants", agreed: Agreed) -> int:
        """Add the words of some UEs' updates to their cells'; how many had to scale theirs down."""
        at_once = _AT_ONCE.get(rows.device.type, _AT_ONCE_ELSEWHERE)
        scaled, step = 0, max(at_once // self.cell.num_words, 1)
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            edges = torch.from_numpy(some.edge_of[part]).to(rows.device)
            weights = torch.from_numpy(some.weights[part].astype(np.int64))
            draws = Draws(self.streams, self.key, some.ues[part], rows.device, "cell")
            sent = self.cell.words(rows[part], weights, agreed.rows(edges), draws)
            total.index_add_(0, edges, sent.words)
            scaled += int(sent.scaled.sum())
        return scaled

    def _agreed(self, who: "Participants", device: torch.device) -> Agreed:
        """What each cell has agreed on, a row for each."""
        first = self.cell.first_scales(device)
        scales = None
        if first is not None:
            known = who.rules or [{}] * who.num_edges
            scales = torch.stack([torch.as_tensor(state.get(SCALES, first), device=device) for state in known])
        numbers = np.arange(who.num_edges) if who.numbers is None else who.numbers
        return Agreed(scales, self.cell.seeds(Draws(self.streams, self.key, numbers, device, "cell")))

    def _rules(self, who: "Participants", agreed: Agreed, clipped: Tensor) -> Sequence[RuleState]:
        if agreed.scales is None:
            return who.rules
        return [{SCALES: scales.clone()} for scales in self.cell.next_scales(agreed.scales, clipped)]


def _pieces(edge_of: IntArray, most: int) -> Iterator[IntArray]:
    """Places of at most so many UEs, of whole edges where these fit: sums of whole numbers have no order."""
    order, first, last = np.argsort(edge_of, kind="stable"), 0, 0
    for end in np.cumsum(np.bincount(edge_of)).tolist():
        if end - first > most and last > first:
            yield order[first:last]
            first = last
        if end - first > most:
            yield from np.split(order[first:end], range(most, end - first, most))
            first = end
        last = end
    if last > first:
        yield order[first:last]
