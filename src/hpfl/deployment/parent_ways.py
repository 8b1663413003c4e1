"""What a cloud and an edge, as parents, do each in its own way."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.hub import Child
from hpfl.deployment.wire import Arrival, VectorSpec

if TYPE_CHECKING:
    from hpfl.deployment.parent import ParentSide


class ParentWays(Protocol):
    """What a cloud and an edge do each in its own way; `admit`, `checked` and `accept` may refuse."""

    children_are: str
    are_parents: bool
    """Whether children have children of their own, who may be missing."""

    @property
    def update_spec(self) -> VectorSpec:
        """What an update that was ordered must look like."""
        ...

    def admit(self, child: Child) -> None:
        """Look at a greeting."""
        ...

    def attached(self, side: "ParentSide", child: Child) -> None:
        """Begin to send what a new child, or a visitor, needs."""
        ...

    def gone(self, side: "ParentSide", child: Child) -> None:
        """A child, or a visitor, has left."""
        ...

    def checked(self, child: Child, sketch: Any) -> CheckedSketch:
        """A child's sketch."""
        ...

    def accept(self, side: "ParentSide", number: int, arrival: Arrival) -> None:
        """A child's update that was asked for."""
        ...

    def declined(self, side: "ParentSide", child: Child) -> None:
        """A child has no update for its order."""
        ...

    def requested(self, side: "ParentSide", child: Child) -> None:
        """A child asks for the global model."""
        ...

    def reports_on(self, number: int) -> Collection[int]:
        """The UEs whose figures a child sends."""
        ...
