"""Who is asked for figures of a model, and who of them is still worth waiting for."""

from collections.abc import Collection, Mapping, Set

from hpfl.deployment.attendance import Attendance
from hpfl.deployment.hub import Child
from hpfl.deployment.roll_call import RollCall


class FiguresCall:
    """One evaluation: children that train and newcomers, each waited for as long as their like usually take."""

    def __init__(self, attendance: Attendance, there: Mapping[int, Child], *, limit_s: float) -> None:
        usual = RollCall(attendance, "figures", limit_s=limit_s)
        computed = RollCall(attendance, "newcomers' figures", limit_s=limit_s)
        roll_of = {number: computed if child.never_trains else usual for number, child in there.items()}
        self.asked = {number: child for number, child in there.items() if roll_of[number].calls(number)}
        self._roll_of = roll_of
        waited = {number for number in self.asked if not attendance.is_left_out(number, "figures")}
        self._waited = {roll: {number for number in waited if roll_of[number] is roll} for roll in (usual, computed)}

    def heard(self, number: int) -> None:
        """Figures of a child have come."""
        self._roll_of[number].heard(number)

    def is_over(self, heard: Collection[int], there: Mapping[int, Child]) -> bool:
        """Whether nobody is worth waiting for any longer, of those who are there as they were."""
        return all(
            not (owed := self._owing(waited, heard, there)) or roll.is_over(owed, len(waited))
            for roll, waited in self._waited.items()
        )

    def close(self, heard: Collection[int], there: Mapping[int, Child]) -> None:
        """Go on without those who owe figures; whoever has left has missed."""
        for roll, waited in self._waited.items():
            owed = self._owing(waited, heard, there)
            roll.close(owed, len(waited))
            for number in waited - owed - set(heard):
                roll.left(number)

    def _owing(self, waited: Set[int], heard: Collection[int], there: Mapping[int, Child]) -> set[int]:
        return {number for number in waited if number not in heard and there.get(number) is self.asked[number]}
