"""Whom a parent lets in: names on its roster, with a valid certificate of a trusted authority, not revoked."""

import asyncio
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509

from hpfl.deployment.file_watch import LOOK_S, WatchedFiles
from hpfl.deployment.identity import ANNOUNCED_S, ExpiryNotices, OwnIdentity, seconds_left
from hpfl.deployment.logs import log
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.rosters import ChildRoster
from hpfl.deployment.security import proven_name
from hpfl.deployment.settings import SettingsError

_LARGEST_LIST_BYTES = 16_000_000


@dataclass(frozen=True)
class ProvenChild:
    """Who a child is, by which certificate, and which slot is its."""

    name: str
    number: int
    certificate: x509.Certificate


class AdmittedStream(Protocol):
    """A stream that can be ended for a reason."""

    def end(self, why: str) -> None:
        """End it."""
        ...


class AdmittedChild(Protocol):
    """A child that is attached; `shut_out` is set before its stream is ended because it may not be here."""

    shut_out: bool

    @property
    def proven(self) -> ProvenChild:
        """Who it is."""
        ...

    @property
    def stream(self) -> AdmittedStream:
        """What ends with it."""
        ...


class Admission:
    """Says who may attach, and of those who have whether they still may; its files may change meanwhile."""

    def __init__(self, roster: Mapping[str, int], own: OwnIdentity, revoked: str = "") -> None:
        self._roster = roster
        self._own = own
        self._path = revoked
        self._watched = WatchedFiles([revoked] if revoked else [])
        self._revoked = revoked_serials(Path(revoked), own) if revoked else frozenset()
        self._notices = ExpiryNotices()

    def proven(self, auth: Mapping[str, Sequence[bytes]]) -> ProvenChild:
        """Who is at the other end of a connection; refuses whoever may not attach."""
        name = proven_name(auth)
        number = self._roster.get(name)
        if number is None:
            raise RefusedError("identity", f"{name!r} is not among this node's children")
        certificate = x509.load_pem_x509_certificate(next(iter(auth.get("x509_pem_cert", ()))))
        child = ProvenChild(name, number, certificate)
        self.check(child)
        self.announce(child)
        return child

    def check(self, child: ProvenChild) -> None:
        """Refuse a child that may not be here."""
        why = self.why_not(child)
        if why:
            raise RefusedError("identity", why)

    def why_not(self, child: ProvenChild) -> str:
        """Why a child may not be here, as a sentence; empty where it may."""
        if self._roster.get(child.name) is None:
            return f"{child.name!r} is no longer among this node's children"
        if self._roster[child.name] != child.number:
            return f"{child.name!r} sits at {self._roster[child.name]} now, and no longer at {child.number}"
        if child.certificate.serial_number in self._revoked:
            return f"the certificate of {child.name!r} has been revoked"
        if seconds_left(child.certificate) < 0:
            return f"the certificate of {child.name!r} expired on {child.certificate.not_valid_after_utc:%d %B %Y}"
        if not self._own.vouches_for(child.certificate):
            return f"the certificate of {child.name!r} is of an authority that is no longer trusted"
        return ""

    def announce(self, child: ProvenChild) -> None:
        """Log, once a day, that a child's certificate is about to expire."""
        self._notices.say(child.certificate, child.name)

    def has_changed(self) -> bool:
        """Look at all files; whether somebody who was admitted may have to go."""
        looked = (self._own.has_changed(), isinstance(self._roster, ChildRoster) and self._roster.has_changed())
        return self._other_revocations() or any(looked)

    async def watch_over(self, attached: Collection[AdmittedChild], expires: Any) -> None:
        """Shut out whoever may no longer be here, as soon as a file says so or a certificate has expired.

        `expires` is the metric of seconds that are left, the node's own and the least of its children's.
        """
        while True:
            self._own.announce()
            changed, least_s = self.has_changed(), math.inf
            for child in list(attached):
                left_s = seconds_left(child.proven.certificate)
                least_s = min(least_s, left_s)
                if changed or left_s < ANNOUNCED_S:
                    self.announce(child.proven)
                    _end(child, self.why_not(child.proven))
            expires.labels("own").set(self._own.left_s)
            expires.labels("children").set(least_s)
            await asyncio.sleep(LOOK_S)

    def _other_revocations(self) -> bool:
        if not self._path or not self._watched.have_changed():
            return False
        try:
            self._revoked = revoked_serials(Path(self._path), self._own)
        except SettingsError as error:
            log("revocations not changed", level=logging.WARNING, reason=str(error))
            return False
        log("revocations changed", revoked=len(self._revoked))
        return True


def _end(child: AdmittedChild, why: str) -> None:
    if why and not child.shut_out:
        child.shut_out = True
        child.stream.end(why)


def revoked_serials(path: Path, own: OwnIdentity) -> frozenset[int]:
    """Serial numbers on a revocation list, which one of the trusted authorities must have signed."""
    try:
        if path.stat().st_size > _LARGEST_LIST_BYTES:
            raise SettingsError(f"{path} has {path.stat().st_size} bytes; wanted at most {_LARGEST_LIST_BYTES}")
        listed = x509.load_pem_x509_crl(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); `hpfl certs revoke` makes it") from None
    except ValueError:
        raise SettingsError(f"{path} is not a revocation list; `hpfl certs revoke` makes one") from None
    if not any(listed.is_signature_valid(one.public_key()) for one in own.authorities):  # type: ignore[arg-type]
        raise SettingsError(f"{path} was not signed by an authority that this node trusts")
    return frozenset(one.serial_number for one in listed)
