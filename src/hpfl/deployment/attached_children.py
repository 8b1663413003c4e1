"""Whose streams are open at a parent: of children that take part in rounds, and of newcomers, that never do."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpfl.deployment.hub import Child


class AttachedChildren:
    """The newest stream of each, by number: `children` take part in rounds, `onlookers` are evaluated alone."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}
        self.onlookers: dict[int, Child] = {}

    @property
    def everybody(self) -> dict[int, "Child"]:
        """Children and onlookers."""
        return {**self.children, **self.onlookers} if self.onlookers else self.children

    def book_of(self, child: "Child") -> dict[int, "Child"]:
        """Where a child stands, or would."""
        return self.onlookers if child.never_trains else self.children
