"""What a child owes that leaves: an answer that others wait for, which counts as missed."""

from typing import TYPE_CHECKING

from hpfl.deployment.hub import Child

if TYPE_CHECKING:
    from hpfl.deployment.parent import ParentSide


def note_debts(side: "ParentSide", child: Child) -> None:
    """Count what a child owes as it leaves; where most are gone, or all are told to go, nobody is blamed."""
    there = len(side.hub.children.keys() - {child.number})
    most_are_gone = there < side.attendance.quorum_of(len(side.roster)) - 1
    if child.hello.visitor or side.is_over or not side.hub.is_listening or most_are_gone:
        return
    book, number = side.gathering, child.number
    answered = book.held.keys() | book.failed | book.vacant
    if side.sent.get(number) is child and number not in answered and not side.opening.is_early():
        side.sketches.left(number)
    side.collecting.left(number)
