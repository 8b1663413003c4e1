"""What has left the cells of each UE so far, what that comes to, and whether a run may go on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpfl.arrays import BoolArray, IntArray
from hpfl.privacy.accountants import Accountant

RELEASES = "releases"
"""In the state of a run: how many noisy sums each UE [N] has been part of."""

Spending = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The account of a run: its accountant, its budget (0: none), and the releases of a cell per model it works on.

    `edge_of_ue` [N] says under which edge a UE is; None: that changes, or is not known.
    """

    accountant: Accountant
    budget: float = 0.0
    per_model: int = 1
    edge_of_ue: IntArray | None = None

    def added(self, spent: Spending, releases: IntArray | None) -> Spending:
        """The account with the releases [N] of a round."""
        if releases is None:
            return spent
        return {RELEASES: releases + spent.get(RELEASES, 0)}

    def epsilon(self, spent: Spending) -> float:
        """What the run has told of the UE that it tells most of."""
        releases = spent.get(RELEASES)
        return 0.0 if releases is None else self.accountant.epsilon(int(releases.max(initial=0)))

    def is_over(self, spent: Spending, awaiting: BoolArray) -> bool:
        """Whether the next round could exceed the budget: edges that are `awaiting` [K] work on the model they got.

        Where UEs change their edges, or these lose their work, any UE may be in it.
        """
        if not self.budget or (self.edge_of_ue is not None and not awaiting.any()):
            return False
        releases = spent.get(RELEASES)
        if releases is None:
            most = 0
        else:
            working = slice(None) if self.edge_of_ue is None else awaiting[self.edge_of_ue]
            most = int(releases[working].max(initial=0))
        return self.accountant.epsilon(most + self.per_model) > self.budget


def releases_of(members: IntArray, count: int, num_ues: int) -> IntArray:
    """Releases [N] of a round in which `members` took part, `count` each."""
    found = np.zeros(num_ues, dtype=np.int64)
    found[members] = count
    return found
