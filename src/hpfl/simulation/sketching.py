"""Sketches before the plan: UEs that have computed send a few floats first, and what that takes is counted.

An edge's sketch is the mean of its UEs' (a sketch is linear), so it is that of the edge's update. With sketches the
computing comes before the plan: it is in the time spent here, once per edge round, and no longer in the uploads.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.energy import compute_j, transmit_j
from hpfl.network.links import Links
from hpfl.planning.bandwidth import allocate
from hpfl.planning.problem import RoundProblem, Spectrum
from hpfl.training.sketch import BITS_PER_FLOAT, Projection


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What sketching took: seconds until the cloud had them, bits on both hops, joules of each link's UE."""

    seconds: float
    bits: float
    joules: FloatArray


@dataclass(frozen=True, kw_only=True)
class Sketching:
    """The run's one projection, the bandwidth (Hz) sketches share, and whether importance is taken from them.

    `more_floats` go with every sketch: the variances of a menu of codings. A UE sends a number in `ue_bits`.
    """

    projection: Projection
    bandwidth_hz: float
    backhaul: bool = True
    importance: bool = False
    spectrum: Spectrum = "fixed"
    more_floats: int = 0
    ue_bits: int = BITS_PER_FLOAT

    def sketches(self, updates: torch.Tensor) -> FloatArray:
        """Sketches [K, d] of the edges' updates [K, P]."""
        return np.asarray(self.projection(updates).cpu().numpy(), dtype=np.float64)

    def spent(self, links: Links, starts: BoolArray, cpu_hz: FloatArray) -> Spent:
        """Time, bits and energy until the sketches of the edge rounds that start are at the cloud, best bandwidth."""
        bits = float((self.projection.width + self.more_floats) * BITS_PER_FLOAT)
        own_bits = bits + float(self.projection.width * (self.ue_bits - BITS_PER_FLOAT))
        sends = starts[links.edge_of_ue]
        if not sends.any():
            return Spent(seconds=0.0, bits=0.0, joules=np.zeros(sends.size))
        edge_bits = np.where(starts, bits if self.backhaul else 0.0, 0.0)
        allocation = allocate(self._round_of(links, np.where(sends, own_bits, 0.0), edge_bits), starts)
        air_j = transmit_j(allocation.ue_power_w, np.where(sends, allocation.upload_s, 0.0))
        return Spent(
            seconds=allocation.round_latency_s,
            bits=float(sends.sum() * own_bits + edge_bits.sum()),
            joules=np.where(sends, compute_j(links.compute_s, cpu_hz) + air_j, 0.0),
        )

    def _round_of(self, links: Links, ue_bits: FloatArray, edge_bits: FloatArray) -> RoundProblem:
        K = edge_bits.size
        return RoundProblem(
            bandwidth_hz=self.bandwidth_hz,
            rho=0.0,
            phi=0.0,
            max_edges=K,
            staleness_bound=1,
            links=replace(links, ue_bits=ue_bits, edge_bits=edge_bits, ue_energy_j=None),
            importance=np.zeros(K),
            staleness=np.zeros(K, dtype=np.int64),
            spectrum=self.spectrum,
            trusted=True,
        )


def computed(links: Links) -> Links:
    """The links once everybody has computed."""
    return replace(links, compute_s=np.zeros_like(links.compute_s))


def slowest(seconds: FloatArray, edge_of_ue: IntArray, num_edges: int) -> FloatArray:
    """The longest of the UEs' seconds under each edge; 0 where there is nobody."""
    longest = np.zeros(num_edges)
    np.maximum.at(longest, edge_of_ue, seconds)
    return longest
