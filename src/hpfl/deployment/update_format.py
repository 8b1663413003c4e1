"""How a UE's update looks on the wire, and back: today as it is, number by number."""

from dataclasses import dataclass

from hpfl.deployment.wire import Arrival, Vector, VectorSpec


@dataclass(frozen=True)
class UpdateFormat:
    """Turns an update into what is sent and what came into an update; `spec` is what is received at all."""

    spec: VectorSpec

    def packed(self, update: Vector) -> Vector:
        """What a UE sends of its update."""
        return update

    def unpacked(self, arrival: Arrival) -> Vector:
        """The update that an edge reads from what came."""
        return arrival.vector()
