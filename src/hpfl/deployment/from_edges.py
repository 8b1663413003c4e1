"""What a cloud makes of what edges send: checks it, keeps updates that were asked for, answers requests."""

from collections.abc import Collection, Sequence
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.checks import CheckedSketch, check_edge_sketch
from hpfl.deployment.deliveries import Delivered, delivered_of
from hpfl.deployment.hub import Child
from hpfl.deployment.node import SharedWork
from hpfl.deployment.parent import ParentSide
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Arrival, VectorSpec


class FromEdges:
    """The cloud's own ways with its children; `delivered` are this round's updates in the order of arrival.

    `coding` is the entry of the menu of codings that edges were ordered to send by.
    """

    children_are = "edges"

    def __init__(self, experiment: SharedWork, ues_of: Sequence[Collection[int]]) -> None:
        self.delivered: dict[int, Delivered] = {}
        self.coding = 0
        self._experiment = experiment
        self._ues_of = ues_of
        self._answered: set[Child] = set()

    @property
    def update_spec(self) -> VectorSpec:
        """What an edge's update must look like in this round."""
        return self._experiment.updates.edge_spec(self.coding)

    def admit(self, child: Child) -> None:
        """Edges alone."""
        if child.hello.visitor:
            raise RefusedError("unexpected", "visitors ask an edge")

    def attached(self, side: ParentSide, child: Child) -> None:
        """The round sees it and gives it the model."""
        side.gathering.changed.set()

    def gone(self, side: ParentSide, child: Child) -> None:
        """What an edge held has gone with it, until it says so again."""
        side.gathering.forget(child.number)

    def checked(self, child: Child, sketch: Any) -> CheckedSketch:
        """A sketch for UEs of this edge."""
        work, own = self._experiment, set(self._ues_of[child.number])
        sizes = {"width": work.sketch_width, "codings": len(work.foretold)}
        return check_edge_sketch(child.number, sketch, bounds=work.bounds, own=own, **sizes)

    def accept(self, side: ParentSide, number: int, arrival: Arrival) -> None:
        """Keep an edge's update if it is the one the edge has announced."""
        held = side.gathering.held.get(number)
        if held is None or not held.tag.about_same_model(arrival.tag):
            raise RefusedError("unexpected", f"edge {number} delivers what it has announced no longer")
        work, coding = self._experiment, self.coding
        self.delivered[number] = delivered_of(
            arrival,
            held,
            read=lambda came: work.updates.from_edge(came, coding),
            bounds=work.bounds,
            weigh=work.weight,
            seconds=side.collecting.waited(number),
        )
        side.metrics.accepted.inc()

    def declined(self, side: ParentSide, child: Child) -> None:
        """It holds nothing: it needs the current model."""
        child.asked_again = False
        side.sent.pop(child.number, None)
        side.gathering.forget(child.number)

    def requested(self, side: ParentSide, child: Child) -> None:
        """Send the global model, for whoever visits the edge; what is on its way answers a second request too."""
        if side.model is None:
            raise RefusedError("unexpected", "there is no model yet")
        if child in self._answered:
            return
        sending = side.hub.send_all(side.model.frames(pb.GLOBAL), [child], at_once=1)
        if sending is not None:
            self._answered.add(child)
            sending.add_done_callback(lambda _: self._answered.discard(child))

    def reports_on(self, number: int) -> Collection[int]:
        """All UEs of an edge."""
        return self._ues_of[number]
