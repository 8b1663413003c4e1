"""What a child owes: a sketch that is due, and not another; one that leaves with its debts has missed."""

from typing import TYPE_CHECKING

from hpfl.deployment.hub import Child
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.rosters import training_seats
from hpfl.deployment.wire import Tag

if TYPE_CHECKING:
    from hpfl.deployment.parent import ParentSide


def note_debts(side: "ParentSide", child: Child) -> None:
    """Count what a child owes as it leaves; where most are gone, or all are told to go, nobody is blamed."""
    there = len(side.hub.children.keys() - {child.number})
    most_are_gone = there < side.attendance.quorum_of(len(training_seats(side.roster, side.newcomers))) - 1
    if not child.trains or side.is_over or not side.hub.is_listening or most_are_gone:
        return
    book, number = side.gathering, child.number
    answered = book.held.keys() | book.failed | book.vacant.keys()
    if side.sent.get(number) is child and number not in answered and not side.opening.is_early():
        side.sketches.left(number)
    side.collecting.left(number)


def check_due(side: "ParentSide", child: Child, tag: Tag) -> None:
    """Refuse a sketch that nobody waits for; one that is left out and answers too late does answer again."""
    try:
        side.gathering.check(child.number, tag)
    except RefusedError as error:
        if error.code == "stale" and side.attendance.is_left_out(child.number):
            side.sketches.heard(child.number)
        raise
