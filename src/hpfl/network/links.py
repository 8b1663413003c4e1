"""Every link of a round as arrays: K backhauls (edge to cloud) and N access links (UE to edge), UEs sorted by edge."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.records import PER_EDGE, PER_UE, Index, taken

_POSITIONS: Any = None  # stands for 0, 1, 2, ... until it is known how many


@dataclass(frozen=True, kw_only=True)
class Links:
    """What the cloud knows of the radio and the work still to do when it plans a round.

    Arrays have one entry per edge or per participating UE, as each says; `members` are the UEs' own numbers, by default
    their positions. `compute_s` is what is left to compute; `compute_j` are the joules of computing on a new model.
    """

    edge_gain: FloatArray = field(metadata=PER_EDGE)
    edge_power_w: FloatArray = field(metadata=PER_EDGE)
    edge_noise_w_per_hz: FloatArray = field(metadata=PER_EDGE)
    edge_bits: FloatArray = field(metadata=PER_EDGE)
    members: IntArray = field(default=_POSITIONS, metadata=PER_UE)
    edge_of_ue: IntArray = field(metadata={**PER_UE, "numbers": "edge"})
    ue_gain: FloatArray = field(metadata=PER_UE)
    ue_power_w: FloatArray = field(metadata=PER_UE)
    ue_noise_w_per_hz: FloatArray = field(metadata=PER_UE)
    ue_bits: FloatArray = field(metadata=PER_UE)
    compute_s: FloatArray = field(metadata=PER_UE)
    ue_energy_j: FloatArray | None = field(default=None, metadata=PER_UE)
    compute_j: FloatArray | None = field(default=None, metadata=PER_UE)

    def __post_init__(self) -> None:
        if self.members is _POSITIONS:
            object.__setattr__(self, "members", np.arange(np.size(self.edge_of_ue), dtype=np.int64))

    @property
    def num_edges(self) -> int:
        """Number of edges K."""
        return self.edge_bits.size

    @property
    def num_ues(self) -> int:
        """Number of UEs N."""
        return self.ue_bits.size

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the UEs come edge by edge, in the edges' order."""
        return bool((self.edge_of_ue[1:] >= self.edge_of_ue[:-1]).all())

    @cached_property
    def ue_snr_hz(self) -> FloatArray:
        """`s = p h / N_0` of every UE's link at its full power, in Hz."""
        return self.ue_power_w * (self.ue_gain / self.ue_noise_w_per_hz)

    @cached_property
    def edge_snr_hz(self) -> FloatArray:
        """`s = p h / N_0` of every edge's backhaul, in Hz."""
        return self.edge_power_w * (self.edge_gain / self.edge_noise_w_per_hz)

    def carrying(self, ue_bits: float, edge_bits: float) -> Self:
        """The links with other bits on each hop, where there are any to send."""
        return replace(
            self,
            ue_bits=np.where(self.ue_bits > 0, ue_bits, 0.0),
            edge_bits=np.where(self.edge_bits > 0, edge_bits, 0.0),
        )

    def of_edges(self, edges: IntArray | BoolArray) -> Self:
        """The links of these edges, which are numbered anew in this order, and of the UEs under them."""
        return replace(self, **taken(self, edges=edges, ues=self.ues_under(edges)))

    def of_ues(self, order: Index) -> Self:
        """The links of these UEs, in this order, and of all edges."""
        return replace(self, **taken(self, ues=order))

    def ues_under(self, edges: IntArray | BoolArray) -> Index:
        """Which UEs are under these edges, in the order they have."""
        under = np.zeros(self.num_edges, dtype=np.bool_)
        under[edges] = True
        mine = under[self.edge_of_ue]
        return slice(None) if mine.all() else np.flatnonzero(mine)
