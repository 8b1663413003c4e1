"""Who is there: edges around a cloud, UEs around their edges, and each machine's properties (paper, section 7.1)."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.network.distributions import Distribution
from hpfl.rng import Streams


@dataclass(frozen=True, kw_only=True)
class FleetSpec:
    """The distributions a fleet is drawn from."""

    ues_per_edge: IntArray
    cpu_hz: Distribution
    cycles_per_bit: Distribution
    ue_power_w: Distribution
    edge_power_w: Distribution
    ue_distance_m: Distribution
    edge_distance_m: Distribution


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Every machine for good: one array per property over K edges or N UEs, UEs sorted by edge."""

    edge_of_ue: IntArray
    cpu_hz: FloatArray
    cycles_per_bit: FloatArray
    ue_power_w: FloatArray
    ue_distance_m: FloatArray
    num_samples: IntArray
    edge_power_w: FloatArray
    edge_distance_m: FloatArray

    @property
    def num_edges(self) -> int:
        """K."""
        return len(self.edge_power_w)

    @property
    def num_ues(self) -> int:
        """N."""
        return len(self.edge_of_ue)


def make_fleet(spec: FleetSpec, num_samples: IntArray, streams: Streams) -> Fleet:
    """Draw every machine's properties; member `i`'s draws depend on nothing but the seed and `i`."""
    num_edges, num_ues = len(spec.ues_per_edge), int(spec.ues_per_edge.sum())

    def ues(name: str, distribution: Distribution) -> FloatArray:
        return distribution.quantile(streams.at(f"fleet/{name}").uniform(num_ues))

    def edges(name: str, distribution: Distribution) -> FloatArray:
        return distribution.quantile(streams.at(f"fleet/{name}").uniform(num_edges))

    return Fleet(
        edge_of_ue=np.repeat(np.arange(num_edges, dtype=np.int64), spec.ues_per_edge),
        cpu_hz=ues("cpu", spec.cpu_hz),
        cycles_per_bit=ues("cycles", spec.cycles_per_bit),
        ue_power_w=ues("ue power", spec.ue_power_w),
        ue_distance_m=ues("ue distance", spec.ue_distance_m),
        num_samples=num_samples,
        edge_power_w=edges("edge power", spec.edge_power_w),
        edge_distance_m=edges("edge distance", spec.edge_distance_m),
    )
