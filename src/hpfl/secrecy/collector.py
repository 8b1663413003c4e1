"""The edge's side of a session: carries messages between members and learns, of each sum, the sum.

What it is told by members it checks for form, and what they reveal against what they had promised: a sum is right to
the last integer, or the session ends with an error that says why. It keeps no member's masked words, only their sum.
"""

from collections.abc import Collection, Mapping

from hpfl.secrecy.collected_sum import Ballot, CollectedSum
from hpfl.secrecy.member_trust import Trust
from hpfl.secrecy.messages import (
    LARGEST_NUMBER,
    MASK,
    SELF,
    Advert,
    SignedAdvert,
    parcel_bytes,
    read_advert,
    read_revealed,
)
from hpfl.secrecy.parcels import check_prints
from hpfl.secrecy.secrecy_errors import SecrecyError, TooFewError
from hpfl.secrecy.session import Session
from hpfl.secrecy.unmasking import Revealed, unmask
from hpfl.secrecy.words import AnyWords, WordArray


class Collector:
    """An edge in one session. Each `add_*` takes what one member has sent, and what is asked for next ends a step.

    With a `trust` adverts are checked as members will check them, so that one bad advert is left out here and does
    not stop all of them. `vouched` takes the members' tags on the list of them all (round 2); where fewer than t have
    vouched for it, every sum takes votes.
    """

    def __init__(self, session: Session, trust: Trust | None = None) -> None:
        self._session, self._trust = session, trust
        self._adverts: dict[int, bytes] = {}
        self._read: dict[int, Advert] = {}
        self._names: dict[int, str] = {}
        self._numbers: list[int] = []
        self._parcels: dict[int, dict[int, bytes]] = {}
        self._inboxes: dict[int, dict[int, bytes]] = {}
        self._members: list[int] = []
        self.vouched = Ballot("", [])
        self._sums = {one.name: CollectedSum.of(one) for one in session.instances}

    def add_advert(self, number: int, data: bytes) -> None:
        """Round 0: a member's public keys."""
        if self._numbers or number in self._adverts or not 0 <= number <= LARGEST_NUMBER:
            raise SecrecyError(f"the advert of member {number} is not due: late, or its second one", [number])
        if len(self._adverts) == self._session.slots:
            raise SecrecyError(f"member {number} is one more than the {self._session.slots} slots of this cell")
        signed = read_advert(self._session, number, data)
        if self._trust is not None:
            self._names[number] = _new_name(self._trust, self._names, number, signed)
        self._adverts[number], self._read[number] = data, signed.advert

    def adverts(self) -> dict[int, bytes]:
        """All adverts, for all of their members; nobody else is in the session from now on."""
        if not self._numbers:
            _enough(self._session, "sent keys", len(self._adverts))
            self._numbers = sorted(self._adverts)
        return dict(self._adverts)

    def add_shares(self, number: int, shares: Mapping[int, bytes]) -> None:
        """Round 1: a member's parcels for all others."""
        if number not in self._numbers or self._members or number in self._parcels:
            raise SecrecyError(f"the shares of member {number} are not due", [number])
        if set(shares) != set(self._numbers) - {number}:
            raise SecrecyError(f"the shares of member {number} are not for exactly the others", [number])
        wanted = parcel_bytes(self._session)
        for parcel in shares.values():
            if len(parcel) != wanted:
                raise SecrecyError(f"a parcel of member {number} has {len(parcel)} bytes; wanted {wanted}", [number])
        self._parcels[number] = dict(shares)

    def members(self) -> list[int]:
        """Those who have sent shares; masks are made among these from now on."""
        if not self._members:
            _enough(self._session, "sent shares", len(self._parcels))
            self._members = self.vouched.electors = sorted(self._parcels)
        return list(self._members)

    def shares_for(self, number: int) -> dict[int, bytes]:
        """The parcels for one of the members."""
        if number not in self.members():
            raise SecrecyError(f"member {number} has sent no shares and gets none")
        return dict(self._parcels_for(number))

    def add_masked(self, instance: str, number: int, words: AnyWords) -> None:
        """Round 2: a member's masked words of a sum."""
        one = self._sum(instance)
        if not _masks_so(one, self._first, self._members, number) or one.ballot is not None or number in one.senders:
            raise SecrecyError(f"{instance}: the masked words of member {number} are not due", [number])
        one.add(number, words)

    def survivors(self, instance: str) -> list[int]:
        """Those whose words are summed, for all of them; nobody else's are from now on."""
        one = self._sum(instance)
        if one.ballot is None:
            _enough(self._session, f"sent masked words of {instance}", len(one.senders))
            one.ballot = Ballot(f"{instance}: ", sorted(one.senders))
        return list(one.survivors)

    def at_once(self, instance: str) -> list[int]:
        """Those survivors that reveal without votes, for the list of them stands; nobody where it takes votes."""
        one, first, survivors = self._sum(instance), self._first, self.survivors(instance)
        voted = first.ballot.votes.keys() if first is not one and first.ballot is not None else set[int]()
        ready: Collection[int] = ()
        if voted and survivors == first.survivors:
            ready = first.revealed
        elif survivors == self._members:
            ready = set(self.vouched.close()) - voted
        if len(ready) < self._session.threshold:
            return []
        one.revealers = sorted(ready)
        return list(one.revealers)

    def add_votes(self, instance: str, number: int, tags: Mapping[int, bytes]) -> None:
        """Round 3: a survivor's tags for all other survivors."""
        one = self._sum(instance)
        if one.ballot is None:
            raise SecrecyError(f"{instance}: the tags of member {number} are not due", [number])
        one.ballot.add(number, tags)

    def voters(self, instance: str) -> list[int]:
        """Those who have vouched for the survivors; nobody else reveals anything from now on."""
        one = self._sum(instance)
        votes = {} if one.ballot is None else one.ballot.votes
        _enough(self._session, f"vouched for the survivors of {instance}", len(votes))
        assert one.ballot is not None
        one.revealers = one.ballot.close()
        return list(one.revealers)

    def votes_for(self, instance: str, number: int) -> dict[int, bytes]:
        """The tags for one of those who have sent theirs."""
        self.voters(instance)
        ballot = self._sum(instance).ballot
        assert ballot is not None
        return ballot.of(number)

    def add_revealed(self, instance: str, number: int, data: bytes) -> None:
        """Round 4: what a survivor reveals, if each share is the one that it was given; the first t are enough."""
        one = self._sum(instance)
        if number not in one.revealers or number in one.revealed:
            raise SecrecyError(f"{instance}: shares revealed by member {number} are not due", [number])
        kinds = {owner: SELF if owner in one.senders else MASK for owner in self._members}
        shares = read_revealed(number, data, kinds)
        at = 2 * self._session.instances.index(one.instance)
        for kind in (SELF, MASK):
            held = {owner: share for owner, share in shares.items() if kinds[owner] == kind and owner != number}
            check_prints(self._session, number, at + kind, held, self._parcels_for(number))
        one.revealed[number] = shares

    def sum(self, instance: str) -> WordArray:
        """The sum of the survivors' words, modulo `2**bits`."""
        one = self._sum(instance)
        if one.result is None:
            _enough(self._session, f"revealed shares of {instance}", len(one.revealed))
            places = {number: place + 1 for place, number in enumerate(self._numbers)}
            shares = {places[number]: shares for number, shares in list(one.revealed.items())}
            adverts = {number: self._read[number] for number in places}
            found = Revealed(self._session, one.instance, adverts, shares)
            one.result = unmask(found, one.total, one.senders, set(one.among) - one.senders)
        return one.result.copy()

    def _parcels_for(self, number: int) -> Mapping[int, bytes]:
        if number not in self._inboxes:
            others = [sender for sender in self._members if sender != number]
            self._inboxes[number] = {sender: self._parcels[sender][number] for sender in others}
        return self._inboxes[number]

    @property
    def _first(self) -> CollectedSum:
        return self._sums[self._session.instances[0].name]

    def _sum(self, instance: str) -> CollectedSum:
        return self._sums[self._session.instance(instance).name]


def _new_name(trust: Trust, names: Mapping[int, str], number: int, signed: SignedAdvert) -> str:
    """A member's name as its certificate proves it, if it is nobody else's."""
    name = trust.check(number, signed.certificate, signed.advert.signed_text(), signed.signature)
    if name in names.values():
        raise SecrecyError(f"member {number} shows a certificate of {name[:80]!r}, as another does", [number])
    return name


def _enough(session: Session, step: str, found: int) -> None:
    if found < session.threshold:
        raise TooFewError(step, found, session.threshold)


def _masks_so(one: CollectedSum, first: CollectedSum, members: Collection[int], number: int) -> bool:
    """Whether a member masks words of a sum among the same members as the others.

    Who has uncovered the first sum after votes masks later ones among its survivors, who has not among all.
    """
    is_voted = one is not first and first.ballot is not None and first.ballot.is_closed
    if not one.senders:
        one.follows, one.among = is_voted, first.survivors if is_voted else members
    return number in one.among and one.follows == (is_voted and number in first.revealed)
