"""Messages of a session as bytes, each of one length that the session fixes or bounds, and nothing behind it."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from hpfl.secrecy.keys import KEY_BYTES, four
from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Session, joined
from hpfl.secrecy.shamir import FIELD, SHARE_BYTES

SELF, MASK = 0, 1
"""Kinds of secrets: the seed of a member's self mask, the seed of the key that it agrees masks with."""

TAG_BYTES = 32
LARGEST_NUMBER = 2**32 - 1
_SEAL_BYTES = 16
PRINT_BYTES = 16
_ENTRY_BYTES = 5 + SHARE_BYTES
_LARGEST_SIGNATURE, _LARGEST_CERTIFICATE = 512, 8192


@dataclass(frozen=True)
class Advert:
    """A member's public keys: of its channel, and for each sum of its masks, with its promise of the self mask."""

    number: int
    channel: bytes
    masks: tuple[bytes, ...]
    promises: tuple[bytes, ...]

    def body(self) -> bytes:
        """What is sent in front of signature and certificate."""
        pairs = [part for pair in zip(self.masks, self.promises, strict=True) for part in pair]
        return b"".join([four(self.number), self.channel, *pairs])

    def signed_text(self) -> bytes:
        """What the signature is of: the channel's key, which may serve many sessions.

        The keys of this one are not in it: nothing passes a channel whose two ends were told different adverts, so
        whoever is told other keys of a member than its own holds no share of that member's (docs/secure.md).
        """
        return joined(b"hpfl secrecy channel 1", four(self.number), self.channel)


@dataclass(frozen=True)
class SignedAdvert:
    """An advert with the signature and the certificate (DER) of the member."""

    advert: Advert
    signature: bytes
    certificate: bytes

    def encoded(self) -> bytes:
        """As it is sent."""
        tail = b"".join(len(part).to_bytes(2, "little") + part for part in (self.signature, self.certificate))
        return self.advert.body() + tail


def read_advert(session: Session, number: int, data: bytes) -> SignedAdvert:
    """The advert of a member of this number."""
    keys = 1 + 2 * len(session.instances)
    head, tail = data[: 4 + keys * KEY_BYTES], data[4 + keys * KEY_BYTES :]
    signature, tail = _part(number, tail, _LARGEST_SIGNATURE)
    certificate, tail = _part(number, tail, _LARGEST_CERTIFICATE)
    if tail:
        raise SecrecyError(f"{len(tail)} bytes stand behind the advert of member {number}", [number])
    if head[:4] != four(number):
        found = int.from_bytes(head[:4], "little")
        raise SecrecyError(f"an advert of member {found} came as one of member {number}", [number])
    own, *parts = [head[at : at + KEY_BYTES] for at in range(4, len(head), KEY_BYTES)]
    return SignedAdvert(Advert(number, own, tuple(parts[::2]), tuple(parts[1::2])), signature, certificate)


def adverts_digest(session: Session, adverts: Mapping[int, bytes]) -> bytes:
    """What stands for all adverts of a session: two members who were told others agree on nothing afterwards."""
    parts = [four(number) + hashlib.sha256(adverts[number]).digest() for number in sorted(adverts)]
    return hashlib.sha256(joined(b"adverts", session.digest, *parts)).digest()


def vouched_text(
    session: Session, instance: str, adverts: bytes, members: Collection[int], survivors: Collection[int]
) -> bytes:
    """What a tag vouches for: the survivors of a sum, among members with these adverts whose shares are there."""
    lists = [b"".join(map(four, sorted(one))) for one in (members, survivors)]
    return joined(b"survivors", session.digest, instance.encode(), adverts, *lists)


def parcel_bytes(session: Session) -> int:
    """The size of a parcel: prints of its shares, in the clear for the edge, and the shares, sealed for a member."""
    return 2 * len(session.instances) * (PRINT_BYTES + SHARE_BYTES) + _SEAL_BYTES


def split_parcel(session: Session, sender: int, parcel: bytes) -> tuple[list[bytes], bytes]:
    """The prints of the shares in a parcel, and what is sealed."""
    if len(parcel) != parcel_bytes(session):
        wanted = f"wanted {parcel_bytes(session)}"
        raise SecrecyError(f"a parcel of member {sender} has {len(parcel)} bytes; {wanted}", [sender])
    count = 2 * len(session.instances)
    prints = [parcel[at * PRINT_BYTES : (at + 1) * PRINT_BYTES] for at in range(count)]
    return prints, parcel[count * PRINT_BYTES :]


def share_prints(session: Session, holder: int, place: int, shares: Mapping[int, bytes]) -> list[bytes]:
    """The prints of shares of some owners for a holder, by which the edge tells who reveals others than it was given.

    `place` is 2 * (the place of its sum) + (its kind). A share is uniform for who has fewer than t: a hash hides it.
    """
    head, tail, sha256 = b"hpfl secrecy share 1" + session.digest, four(holder) + bytes([place]), hashlib.sha256
    return [
        sha256(b"".join((head, four(owner), tail, share))).digest()[:PRINT_BYTES] for owner, share in shares.items()
    ]


def revealed(shares: Mapping[int, tuple[int, bytes]]) -> bytes:
    """Shares that a member reveals: for each owner the kind and the share, by the owners' numbers."""
    return b"".join(four(owner) + bytes([kind]) + share for owner, (kind, share) in sorted(shares.items()))


def read_revealed(number: int, data: bytes, kinds: Mapping[int, int]) -> dict[int, bytes]:
    """Shares that a member has revealed, of the owners and kinds that are due; some may be missing."""
    if len(data) % _ENTRY_BYTES or len(data) > _ENTRY_BYTES * len(kinds):
        raise SecrecyError(f"{len(data)} bytes of shares came from member {number}", [number])
    entries = np.frombuffer(data, np.uint8).reshape(-1, _ENTRY_BYTES)
    heads = [four(owner) + bytes([kind]) for owner, kind in sorted(kinds.items())]
    if entries[:, :5].tobytes() == b"".join(heads):
        owners = sorted(kinds)
    else:
        owners = _owners(number, entries[:, :5].tobytes(), kinds)
    for place in np.flatnonzero(entries[:, -1] >= FIELD >> 248).tolist():
        if int.from_bytes(entries[place, 5:].tobytes(), "little") >= FIELD:
            raise SecrecyError(f"member {number} has revealed a share of {owners[place]} beyond the field", [number])
    starts = range(5, len(data), _ENTRY_BYTES)
    return {owner: data[at : at + SHARE_BYTES] for owner, at in zip(owners, starts, strict=True)}


def _owners(number: int, heads: bytes, kinds: Mapping[int, int]) -> list[int]:
    """Owners of the shares that a member has revealed, ascending, of the kinds that are due."""
    found: list[int] = []
    for at in range(0, len(heads), 5):
        owner = int.from_bytes(heads[at : at + 4], "little")
        if owner <= (found[-1] if found else -1) or kinds.get(owner) != heads[at + 4]:
            raise SecrecyError(f"member {number} has revealed a share of {owner} that is not due", [number])
        found.append(owner)
    return found


def _part(number: int, data: bytes, largest: int) -> tuple[bytes, bytes]:
    """A part that begins with its length in two bytes, and what follows it."""
    size = int.from_bytes(data[:2], "little")
    if len(data) < 2 + size or not 1 <= size <= largest:
        raise SecrecyError(f"the advert of member {number} is malformed", [number])
    return data[2 : 2 + size], data[2 + size :]
