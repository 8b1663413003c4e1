"""Parcels: one member's shares of all its secrets, sealed for one other, with prints that the edge can read."""

from collections.abc import Mapping, Sequence

from hpfl.secrecy.keys import PairKeys, opened, sealed, secret_bytes
from hpfl.secrecy.messages import PRINT_BYTES, share_prints, split_parcel
from hpfl.secrecy.secrecy_errors import SecrecyError
from hpfl.secrecy.session import Session
from hpfl.secrecy.shamir import FIELD, SHARE_BYTES, shared


def shares_of(session: Session, secrets: Sequence[int], holders: Sequence[int]) -> dict[int, list[bytes]]:
    """For each holder a share of each secret; a holder's point is its place among the holders, from 1."""
    columns = [shared(secret, len(holders), session.threshold) for secret in secrets]
    return {holder: [secret_bytes(column[place]) for column in columns] for place, holder in enumerate(holders)}


def make_parcels(
    session: Session, owner: int, shares: Mapping[int, list[bytes]], channels: Mapping[int, PairKeys], bound: bytes
) -> dict[int, bytes]:
    """A parcel for each other holder, which opens only for a member that was told the same adverts (`bound`)."""
    parcels = {}
    for holder, link in channels.items():
        prints = b"".join(_prints(session, owner, holder, shares[holder]))
        parcels[holder] = prints + sealed(link.seal, b"".join(shares[holder]), bound + prints)
    return parcels


def open_parcel(
    session: Session, ends: tuple[int, int], parcel: bytes, link: PairKeys, bound: bytes
) -> list[bytes] | None:
    """The shares from an owner for a holder (`ends`); None where they are not what was sealed, or not as printed."""
    prints, cipher = split_parcel(session, ends[0], parcel)
    plain = opened(link.open, cipher, bound + b"".join(prints))
    if plain is None:
        return None
    given = [plain[at : at + SHARE_BYTES] for at in range(0, len(plain), SHARE_BYTES)]
    if any(int.from_bytes(share, "little") >= FIELD for share in given):
        return None
    return given if _prints(session, *ends, given) == prints else None


def check_prints(
    session: Session, holder: int, place: int, shares: Mapping[int, bytes], parcels: Mapping[int, bytes]
) -> None:
    """Refuse shares that a holder reveals if they are not those that their owners have printed on parcels for it.

    They are of secrets at one place of a parcel.
    """
    at = slice(place * PRINT_BYTES, (place + 1) * PRINT_BYTES)
    found = share_prints(session, holder, place, shares)
    for owner, print_of in zip(shares, found, strict=True):
        if print_of != parcels[owner][at]:
            raise SecrecyError(f"member {holder} has revealed another share of {owner} than it was given", [holder])


def _prints(session: Session, owner: int, holder: int, given: list[bytes]) -> list[bytes]:
    return [share_prints(session, holder, place, {owner: share})[0] for place, share in enumerate(given)]
