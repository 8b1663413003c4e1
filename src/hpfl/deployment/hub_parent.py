"""What a hub asks of the cloud or the edge whose children it hears."""

from typing import TYPE_CHECKING, Any, Protocol

from hpfl.deployment.wire import Arrival, Tag, VectorSpec

if TYPE_CHECKING:
    from hpfl.deployment.hub import Child


class Parent(Protocol):
    """What a cloud or an edge does with its children; every method may refuse."""

    def greet(self, child: "Child", tag: Tag) -> Tag:
        """Take note of a child that says hello (its `hello` says what it holds); the tag of the welcome."""
        ...

    def attached(self, child: "Child") -> None:
        """Begin to send what a new child needs."""
        ...

    def detached(self, child: "Child") -> None:
        """Take note of a child, or a visitor, that has gone."""
        ...

    def expects(self, child: "Child", tag: Tag, begin: Any) -> VectorSpec:
        """What an announced vector must look like."""
        ...

    def take_vector(self, child: "Child", arrival: Arrival) -> None:
        """A whole vector has come."""
        ...

    def take_message(self, child: "Child", tag: Tag, frame: Any) -> None:
        """A message has come."""
        ...
