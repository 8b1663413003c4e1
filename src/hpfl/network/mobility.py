"""UEs that walk from waypoint to waypoint, and belong to the nearest edge."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.network.places import NEAREST_M, Places, Positions, edge_coordinates_m, ue_coordinates_m
from hpfl.network.topology import Fleet
from hpfl.rng import Streams

_LEGS_PER_ROUND = 1 << 16  # room for a round's legs in the key of its draws


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Where every UE is, where it goes and how fast (m, m/s), as arrays over UEs."""

    x_m: FloatArray
    y_m: FloatArray
    to_x_m: FloatArray
    to_y_m: FloatArray
    speed_m_per_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class RandomWaypoint:
    """Each UE walks straight to a place drawn in the area at a speed drawn in a range, then to the next.

    Edges stand at their distance from the cloud in a direction of their own; the area is the square around all of
    them, as wide as the farthest edge and UE reach.
    """

    slowest_m_per_s: float
    fastest_m_per_s: float
    edge_x_m: FloatArray
    edge_y_m: FloatArray
    reach_m: float

    @classmethod
    def around(cls, fleet: Fleet, speeds_m_per_s: tuple[float, float], streams: Streams) -> "RandomWaypoint":
        """The plane of a fleet: edges at random angles around the cloud."""
        edge_x_m, edge_y_m = edge_coordinates_m(fleet, streams)
        return cls(
            slowest_m_per_s=speeds_m_per_s[0],
            fastest_m_per_s=speeds_m_per_s[1],
            edge_x_m=edge_x_m,
            edge_y_m=edge_y_m,
            reach_m=float(fleet.edge_distance_m.max() + fleet.ue_distance_m.max()),
        )

    def start(self, fleet: Fleet, streams: Streams) -> Walk:
        """Every UE at its own distance from its own edge, on its way to a first waypoint."""
        x_m, y_m = ue_coordinates_m(fleet, self.edge_x_m, self.edge_y_m, streams)
        everyone = np.arange(fleet.num_ues)
        still = Walk(x_m=x_m, y_m=y_m, to_x_m=x_m, to_y_m=y_m, speed_m_per_s=np.ones(fleet.num_ues))
        return self._next_leg(still, everyone, streams, 0)

    def move(self, walk: Walk, seconds: float, streams: Streams, round_number: int) -> Walk:
        """Everybody `seconds` later; a UE that reaches its waypoint turns to the next."""
        time_left_s = np.full(walk.x_m.size, seconds)
        for leg in range(1, _LEGS_PER_ROUND):
            walk, time_left_s = _stride(walk, time_left_s)
            there = np.flatnonzero(time_left_s > 0)
            if not there.size:
                break
            walk = self._next_leg(walk, there, streams, (round_number + 1) * _LEGS_PER_ROUND + leg)
        return walk

    def nearest(self, walk: Walk) -> tuple[IntArray, FloatArray]:
        """Each UE's nearest edge and the distance to it, at least 1 m; which of equally near edges is not promised."""
        from scipy.spatial import cKDTree  # takes long to import, and few UEs walk

        tree = cKDTree(np.column_stack([self.edge_x_m, self.edge_y_m]))
        distance_m, edge = tree.query(np.column_stack([walk.x_m, walk.y_m]))
        return np.asarray(edge, dtype=np.int64), np.maximum(distance_m, NEAREST_M)

    def places(self, walk: Walk, fleet: Fleet, ue_distance_m: FloatArray) -> Places:
        """Where everything is at this point of the walk, with UEs so far from their nearest edges."""

        def find() -> Positions:
            edge_xy_m = np.column_stack([self.edge_x_m, self.edge_y_m])
            return Positions(edge_xy_m, np.column_stack([walk.x_m, walk.y_m]), self.nearest(walk)[0])

        return Places(ue_distance_m=ue_distance_m, edge_distance_m=fleet.edge_distance_m, find=find, moves=True)

    def _next_leg(self, walk: Walk, ues: IntArray, streams: Streams, key: int) -> Walk:
        count = walk.x_m.size
        fields = {name: values.copy() for name, values in vars(walk).items()}
        for axis in ("x", "y"):
            lots = streams.at(f"mobility/{axis}", key).uniform(count)
            fields[f"to_{axis}_m"][ues] = (2.0 * lots[ues] - 1.0) * self.reach_m
        lots = streams.at("mobility/speed", key).uniform(count)
        spread = self.fastest_m_per_s - self.slowest_m_per_s
        fields["speed_m_per_s"][ues] = self.slowest_m_per_s + spread * lots[ues]
        return Walk(**fields)


def _stride(walk: Walk, time_left_s: FloatArray) -> tuple[Walk, FloatArray]:
    """Go on towards the waypoints for the time left; what is left of it on arrival."""
    dx_m, dy_m = walk.to_x_m - walk.x_m, walk.to_y_m - walk.y_m
    to_go_s = np.hypot(dx_m, dy_m) / walk.speed_m_per_s
    arrives = to_go_s <= time_left_s
    share = np.where(arrives, 1.0, time_left_s / np.where(to_go_s > 0, to_go_s, 1.0))
    stepped = Walk(
        x_m=np.where(arrives, walk.to_x_m, walk.x_m + share * dx_m),
        y_m=np.where(arrives, walk.to_y_m, walk.y_m + share * dy_m),
        to_x_m=walk.to_x_m,
        to_y_m=walk.to_y_m,
        speed_m_per_s=walk.speed_m_per_s,
    )
    return stepped, np.where(arrives, time_left_s - to_go_s, 0.0)
