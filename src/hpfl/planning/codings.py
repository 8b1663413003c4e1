"""The menu of codings that a planner may choose from: bits on both hops, and the noise that each adds to an update."""

from dataclasses import dataclass, field

import numpy as np

from hpfl.arrays import FloatArray
from hpfl.planning.rules import ProblemError
from hpfl.records import PER_EDGE


@dataclass(frozen=True, kw_only=True)
class Codings:
    """C ways to code a round's uploads, of which a plan names one for all (`Plan.coding`).

    `ue_bits` and `edge_bits` are those of a UE's and of an edge's whole upload. `noise` [K, C] is the squared error
    that coding is expected to add to each edge's update: at its UEs, `sum_i share_i^2 var_i`, and at its own coding.
    `usual` is what it adds to normal numbers, over their squared norm: all that is known before the first upload.
    `delays` are the rounds by which one that feeds errors back delays an update; empty: none does. The links of a
    problem have the bits of the first entry.
    """

    ue_bits: tuple[float, ...]
    edge_bits: tuple[float, ...]
    noise: FloatArray = field(metadata=PER_EDGE)
    usual: tuple[float, ...] = ()
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.ue_bits)
        if not count or len(self.edge_bits) != count or np.ndim(self.noise) != 2 or np.shape(self.noise)[1] != count:
            shape = np.shape(self.noise)
            raise ProblemError(
                f"codings have bits of {count} entries for UEs and {len(self.edge_bits)} for edges, and noise of shape "
                f"{shape}; wanted one entry each, and a row of as many for every edge"
            )

    def __len__(self) -> int:
        return len(self.ue_bits)
