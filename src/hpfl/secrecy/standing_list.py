"""Which list a member uncovers sums of without votes: that of all members, or of the session's first survivors."""

from collections.abc import Collection, Mapping

from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.vouching import MEMBERS, Vouching


class StandingList:
    """A member's word on the list of a session's members, that of the others, and the list that stands by now.

    No member is known before `know`, and no list stands before enough vouch for one.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._vouching: Vouching | None = None
        self._members: frozenset[int] = frozenset()
        self.members: frozenset[int] = frozenset()

    def know(self, members: frozenset[int], vouching: Vouching) -> None:
        """The members that shares came from, and the keys to vouch with."""
        self._members, self._vouching = members, vouching

    def vouch(self) -> dict[int, bytes]:
        """Round 2 goes on: for each other member a tag on the list of members."""
        if self._vouching is None:
            raise SecrecyError("this member has received no shares, and vouches for no members")
        return self._vouching.tags(MEMBERS, self._members, self._members)

    def believe(self, tags: Mapping[int, bytes]) -> None:
        """The list of members stands, if the threshold vouches for it: if none leaves, sums are uncovered by it."""
        if self._vouching is None or not tags.keys() <= self._members - {self._number}:
            raise SecrecyError("tags on the members came from others, or before the shares")
        self._vouching.check(MEMBERS, self._members, self._members, tags)
        self.members = self._members

    def is_of(self, survivors: Collection[int]) -> bool:
        """Whether a sum of these is uncovered at once, without votes."""
        return bool(self.members) and self.members == frozenset(survivors)
