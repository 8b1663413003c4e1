"""A member of a session, a UE: figure 4 of Bonawitz et al. 2017, with tags instead of signatures on survivors.

A member keeps to it, whatever its edge says: it masks one vector per sum, it vouches for one list of survivors, and
it reveals of each other member either its share of the self mask's seed or its share of the mask key's, never both. Of
a list that stands it reveals at once: of all members, for whom enough have vouched ahead, or of the survivors of the
session's first sum (docs/secure.md says why that is enough).
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from hpfl.secrecy.channel_links import ChannelLinks
from hpfl.secrecy.keys import (
    PairKeys,
    channel,
    commitment,
    mask_key,
    pair_masks,
    public_bytes,
    self_mask,
)
from hpfl.secrecy.masks import MaskedWords, add_masks, word_type
from hpfl.secrecy.member_trust import Identity, Trust
from hpfl.secrecy.messages import (
    LARGEST_NUMBER,
    MASK,
    SELF,
    Advert,
    SignedAdvert,
    adverts_digest,
    read_advert,
    revealed,
)
from hpfl.secrecy.parcels import make_parcels, open_parcel, shares_of
from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Instance, Session
from hpfl.secrecy.shamir import new_secret
from hpfl.secrecy.standing_list import StandingList
from hpfl.secrecy.vouching import Vouching
from hpfl.secrecy.words import AnyWords, checked


@dataclass
class _OwnSum:
    """What a member has for one sum: its two secrets, the mask when it is made, what it has sent and said."""

    instance: Instance
    self_seed: int = field(default_factory=new_secret, repr=False)
    mask_seed: int = field(default_factory=new_secret, repr=False)
    mask: MaskedWords | None = field(default=None, repr=False)
    sent: tuple[MaskedWords, MaskedWords] | None = field(default=None, repr=False)
    among: frozenset[int] = frozenset()
    survivors: frozenset[int] | None = None
    ahead: tuple[frozenset[int], bytes] = field(default=(frozenset(), b""), repr=False)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def seeds(self) -> tuple[int, int]:
        """Both secrets, in the order of their kinds."""
        return self.self_seed, self.mask_seed


class Member:
    """A UE in one session; it is forgotten afterwards, and its keys with it.

    By `standing` it uncovers sums without votes. `links` may be kept from session to session for as long as a UE is
    attached; without them it makes new ones.
    """

    def __init__(self, session: Session, identity: Identity, trust: Trust, links: ChannelLinks | None = None) -> None:
        if not 0 <= identity.number <= LARGEST_NUMBER:
            raise SecrecyError(f"a member has the number {identity.number}; wanted 0 to {LARGEST_NUMBER}")
        self._session, self._identity, self._trust = session, identity, trust
        self._links = ChannelLinks() if links is None else links
        self._sums = {one.name: _OwnSum(one) for one in session.instances}
        self._advert = self._signed_advert()
        self._adverts: dict[int, Advert] = {}
        self._adverts_digest = b""
        self._channels: dict[int, PairKeys] = {}
        self._held: dict[int, list[bytes]] = {}
        self._members: frozenset[int] = frozenset()
        self._among: frozenset[int] = frozenset()
        self.standing = StandingList(identity.number)

    @property
    def number(self) -> int:
        """The member's number."""
        return self._identity.number

    @property
    def unopened(self) -> frozenset[int]:
        """Members whose shares could not be opened: garbage of theirs or of the edge's; none of theirs is revealed."""
        return self._members - self._held.keys()

    def advert(self) -> bytes:
        """Round 0: public keys; that of the channel is signed with the certificate's key."""
        return self._advert

    def shares(self, adverts: Mapping[int, bytes]) -> dict[int, bytes]:
        """Round 1: check the adverts of all; encrypted shares of the secrets of all sums, to each other member."""
        if self._adverts:
            raise SecrecyError("the adverts of this session are known already")
        if adverts.get(self.number) != self._advert:
            raise SecrecyError("this member's own advert is not among those that came")
        _check_count(self._session, "adverts", adverts)
        read = {number: _believed(self._session, self._trust, number, data) for number, data in adverts.items()}
        names = [name for _, name in read.values()]
        if len(set(names)) < len(names):
            raise SecrecyError("two members show certificates of one name")
        self._adverts = {number: advert for number, (advert, _) in read.items()}
        self._adverts_digest = adverts_digest(self._session, adverts)
        self._channels = {other: self._channel(other) for other in self._adverts if other != self.number}
        secrets = [seed for one in self._sums.values() for seed in one.seeds()]
        shares = shares_of(self._session, secrets, sorted(self._adverts))
        self._held = {self.number: shares[self.number]}
        return make_parcels(self._session, self.number, shares, self._channels, self._adverts_digest)

    def receive(self, shares: Mapping[int, bytes]) -> None:
        """Round 2 begins: those who have sent shares are the ones that masks are made with."""
        if self._members or not self._adverts:
            raise SecrecyError("shares came before the adverts, or for a second time")
        members = frozenset(shares) | {self.number}
        if self.number in shares or not members <= self._adverts.keys():
            raise SecrecyError("shares came from others than the members who have sent adverts")
        _check_count(self._session, "shares", members)
        digest, links = self._adverts_digest, self._channels
        opened = {
            sender: open_parcel(self._session, (sender, self.number), parcel, links[sender], digest)
            for sender, parcel in shares.items()
        }
        self._held |= {sender: found for sender, found in opened.items() if found is not None}
        self._members = self._among = members
        self.standing.know(members, self._vouching)

    def prepare(self, instance: str) -> None:
        """Make what hides a sum, and uncovers it if nobody leaves, ahead of time; may run in a thread of its own."""
        one = self._sum(instance)
        self._mask(one)
        if listed := self.standing.members:
            one.ahead = listed, self._shares_of(one, listed)

    def masked(self, instance: str, words: AnyWords) -> MaskedWords:
        """Round 2: words plus the self mask plus or minus a mask with each other member, modulo `2**bits`.

        Once this member has uncovered the first sum after votes, members are its survivors: nobody else is in another.
        """
        one = self._sum(instance)
        checked(words, one.instance)
        own = words.astype(word_type(one.instance.bits))
        with one.lock:
            if one.sent is None:
                total = self._mask(one)  # is used once, and becomes what is sent
                total += own
                one.sent, one.mask, one.among = (own, _wrapped(total, one.instance)), None, self._members
            elif not np.array_equal(one.sent[0], own):
                raise SecrecyError(f"{instance}: other words were masked already; two would show their difference")
            if one.survivors is None and (gone := one.among - self._among):
                plus, minus = _pair_masks(self._session, self.number, self._adverts, one, gone)
                total = one.sent[1].copy()
                add_masks(total, minus, plus)
                one.sent, one.among = (own, _wrapped(total, one.instance)), self._among
            return one.sent[1]

    def is_masked_anew(self, instance: str) -> bool:
        """Whether `masked` now gives other words than before: fewer are left to make masks with."""
        one = self._sum(instance)
        return one.survivors is None and bool(one.among - self._among)

    def vote(self, instance: str, survivors: Collection[int]) -> dict[int, bytes]:
        """Round 3: for each other survivor a tag on the list of survivors, by a key of the two alone."""
        one, told = self._sum(instance), frozenset(survivors)
        if len(told) < len(survivors) or not told <= self._members:
            raise SecrecyError(f"{instance}: survivors came who sent no shares, or came twice")
        if self.number not in told or one.sent is None:
            raise SecrecyError(f"{instance}: this member has masked no words that were summed, and vouches for nothing")
        if one.instance is not self._session.instances[0] and not told <= self._among:
            raise SecrecyError(f"{instance}: survivors came with whom this member has made no masks")
        _check_count(self._session, "survivors", told)
        if one.survivors not in (None, told):
            raise SecrecyError(f"{instance}: another list of survivors came before; the edge tells two stories")
        one.survivors = told
        return self._vouching.tags(instance, self._members, told)

    def reveal(self, instance: str, tags: Mapping[int, bytes]) -> bytes:
        """Round 4: shares of survivors' self masks and of the others' mask keys, if the threshold vouches for them."""
        one = self._sum(instance)
        if one.survivors is None:
            raise SecrecyError(f"{instance}: this member has vouched for no survivors yet")
        if not tags.keys() <= one.survivors - {self.number}:
            raise SecrecyError(f"{instance}: tags came from others than the survivors")
        self._vouching.check(instance, self._members, one.survivors, tags)
        if one.instance is self._session.instances[0]:
            self.standing.members = self._among = one.survivors
        return self._shares_of(one, one.survivors)

    def reveal_standing(self, instance: str, survivors: Collection[int]) -> bytes:
        """Round 4 without round 3, where the survivors are the list that stands."""
        one, told = self._sum(instance), frozenset(survivors)
        if not self.standing.is_of(told) or len(told) < len(survivors):
            raise SecrecyError(f"{instance}: survivors came whom nobody has vouched for; nothing is revealed")
        if one.sent is None:
            raise SecrecyError(f"{instance}: this member has masked no words that were summed, and reveals nothing")
        if one.survivors not in (None, told):
            raise SecrecyError(f"{instance}: another list of survivors came before; the edge tells two stories")
        one.survivors = told
        return self._shares_of(one, told)

    def _shares_of(self, one: _OwnSum, survivors: frozenset[int]) -> bytes:
        if one.ahead[0] == survivors:
            return one.ahead[1]
        at = 2 * self._session.instances.index(one.instance)
        kinds = {owner: SELF if owner in survivors else MASK for owner in self._held}
        return revealed({owner: (kind, self._held[owner][at + kind]) for owner, kind in kinds.items()})

    def _signed_advert(self) -> bytes:
        digest, number = self._session.digest, self.number
        keys = [public_bytes(mask_key(digest, name, number, one.mask_seed)) for name, one in self._sums.items()]
        promises = [commitment(digest, name, number, one.self_seed) for name, one in self._sums.items()]
        advert = Advert(number, self._links.public, tuple(keys), tuple(promises))
        signature = self._links.signature(self._identity, advert.signed_text())
        return SignedAdvert(advert, signature, self._identity.certificate).encoded()

    def _channel(self, other: int) -> PairKeys:
        secret = self._links.agreed(self._adverts[other].channel, other)
        return channel(self._session.digest, secret, (self.number, other), self._adverts_digest)

    def _mask(self, one: _OwnSum) -> MaskedWords:
        """The whole mask of a sum, made once."""
        if not self._members:
            raise SecrecyError(f"{one.instance.name}: masks are made when the shares of the others are there")
        with one.lock:
            if one.sent is not None:
                raise SecrecyError(f"{one.instance.name}: words were masked already")
            if one.mask is None:
                one.mask = self._made_mask(one)
            return one.mask

    def _made_mask(self, one: _OwnSum) -> MaskedWords:
        others = self._members - {self.number}
        plus, minus = _pair_masks(self._session, self.number, self._adverts, one, others)
        own = self_mask(self._session.digest, one.instance.name, self.number, one.self_seed)
        total = np.zeros(one.instance.length, word_type(one.instance.bits))
        add_masks(total, [*plus, own], minus)
        return total

    @property
    def _vouching(self) -> Vouching:
        return Vouching(self._session, self._adverts_digest, self._channels)

    def _sum(self, instance: str) -> _OwnSum:
        return self._sums[self._session.instance(instance).name]


def _pair_masks(
    session: Session, number: int, adverts: Mapping[int, Advert], one: _OwnSum, others: Collection[int]
) -> tuple[list[bytes], list[bytes]]:
    """Keystream keys of a member's masks with some others: those that are added, those that are subtracted."""
    digest, name, at = session.digest, one.instance.name, session.instances.index(one.instance)
    own = mask_key(digest, name, number, one.mask_seed)
    return pair_masks(digest, name, number, own, {other: adverts[other].masks[at] for other in others})


def _wrapped(total: MaskedWords, instance: Instance) -> MaskedWords:
    """Words modulo `2**bits`, which nobody changes any more."""
    if instance.bits < 8 * total.itemsize:
        total &= total.dtype.type(2**instance.bits - 1)
    total.flags.writeable = False
    return total


def _believed(session: Session, trust: Trust, number: int, data: bytes) -> tuple[Advert, str]:
    """A member's advert, and its name as its certificate proves it."""
    signed = read_advert(session, number, data)
    text = signed.advert.signed_text()
    return signed.advert, trust.check(number, signed.certificate, text, signed.signature)


def _check_count(session: Session, what: str, of: Collection[int]) -> None:
    least, most = session.threshold, session.slots
    if not least <= len(of) <= most:
        raise SecrecyError(f"{what} of {len(of)} members came; wanted {least} to {most}")
