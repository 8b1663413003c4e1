"""Where everything is at a moment: how far, and (for those who ask) at which coordinates."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.network.topology import Fleet
from hpfl.rng import Streams

NEAREST_M = 1.0
"""Path loss laws hold from a metre on; nobody counts as nearer."""


class Positions(NamedTuple):
    """Coordinates (m; the cloud is the origin) of K edges [K, 2] and N UEs [N, 2], and the edge each UE belongs to."""

    edge_xy_m: FloatArray
    ue_xy_m: FloatArray
    edge_of_ue: IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Distances of all UEs to their own edges [N] and of all edges to the cloud [K], in metres.

    Coordinates are made by `find` when somebody first asks, so that a channel which goes by distance pays nothing.
    `moves` says whether they are those of one moment alone.
    """

    ue_distance_m: FloatArray
    edge_distance_m: FloatArray
    find: Callable[[], Positions]
    moves: bool = False

    @classmethod
    def at(cls, positions: Positions) -> "Places":
        """The places of machines whose coordinates are known."""
        edge_xy_m, ue_xy_m, edge_of_ue = positions
        away = ue_xy_m - edge_xy_m[edge_of_ue]
        return cls(
            ue_distance_m=np.maximum(np.hypot(away[:, 0], away[:, 1]), NEAREST_M),
            edge_distance_m=np.maximum(np.hypot(edge_xy_m[:, 0], edge_xy_m[:, 1]), NEAREST_M),
            find=lambda: positions,
        )

    @cached_property
    def positions(self) -> Positions:
        """All coordinates."""
        return self.find()

    @property
    def edge_xy_m(self) -> FloatArray:
        """Where the edges are [K, 2]."""
        return self.positions.edge_xy_m

    @property
    def ue_xy_m(self) -> FloatArray:
        """Where the UEs are [N, 2]."""
        return self.positions.ue_xy_m

    @property
    def edge_of_ue(self) -> IntArray:
        """The edge each UE belongs to [N], which is the one its distance is to."""
        return self.positions.edge_of_ue

    @property
    def num_ues(self) -> int:
        """N."""
        return len(self.ue_distance_m)

    @property
    def num_edges(self) -> int:
        """K."""
        return len(self.edge_distance_m)


def edge_coordinates_m(fleet: Fleet, streams: Streams) -> tuple[FloatArray, FloatArray]:
    """x and y of every edge: at its distance from the cloud, in a direction of its own."""
    angle = 2.0 * np.pi * streams.at("mobility/edge angle").uniform(fleet.num_edges)
    return fleet.edge_distance_m * np.cos(angle), fleet.edge_distance_m * np.sin(angle)


def ue_coordinates_m(
    fleet: Fleet, edge_x_m: FloatArray, edge_y_m: FloatArray, streams: Streams
) -> tuple[FloatArray, FloatArray]:
    """x and y of every UE before it moves: at its distance from its own edge, in a direction of its own."""
    angle = 2.0 * np.pi * streams.at("mobility/ue angle").uniform(fleet.num_ues)
    x_m = edge_x_m[fleet.edge_of_ue] + fleet.ue_distance_m * np.cos(angle)
    y_m = edge_y_m[fleet.edge_of_ue] + fleet.ue_distance_m * np.sin(angle)
    return x_m, y_m


def places_at_rest(fleet: Fleet, streams: Streams) -> Places:
    """The places of a fleet in which nobody moves; a walk begins at the same ones."""

    def find() -> Positions:
        edge = edge_coordinates_m(fleet, streams)
        ue = ue_coordinates_m(fleet, *edge, streams)
        return Positions(np.column_stack(edge), np.column_stack(ue), fleet.edge_of_ue)

    return Places(ue_distance_m=fleet.ue_distance_m, edge_distance_m=fleet.edge_distance_m, find=find)
