"""Whom a parent lets in: names on its roster, with a valid certificate of a trusted authority, not revoked."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cryptography import x509

from hpfl.deployment.file_watch import LOOK_S
from hpfl.deployment.identity import ANNOUNCED_S, ExpiryNotices, OwnIdentity, seconds_left
from hpfl.deployment.parent_proof import proof
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.revocations import RevocationList
from hpfl.deployment.rosters import ChildRoster
from hpfl.deployment.security import proven_name


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
        self._revoked = RevocationList(revoked, lambda: own.authorities)
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
        if self._revoked.has(child.certificate):
            return f"the certificate of {child.name!r} has been revoked"
        if seconds_left(child.certificate) < 0:
            return f"the certificate of {child.name!r} expired on {child.certificate.not_valid_after_utc:%d %B %Y}"
        if not self._own.vouches_for(child.certificate):
            return f"the certificate of {child.name!r} is of an authority that is no longer trusted"
        return ""

    def proof(self, challenge: bytes, child: ProvenChild) -> dict[str, bytes]:
        """What a welcome says of this parent's own certificate, where a child asks."""
        return proof(self._own, challenge, child.name)

    def announce(self, child: ProvenChild) -> None:
        """Log, once a day, that a child's certificate is about to expire."""
        self._notices.say(child.certificate, child.name)

    def has_changed(self) -> bool:
        """Look at all files; whether somebody who was admitted may have to go."""
        looked = (self._own.has_changed(), isinstance(self._roster, ChildRoster) and self._roster.has_changed())
        return self._revoked.has_changed() or any(looked)

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


def _end(child: AdmittedChild, why: str) -> None:
    if why and not child.shut_out:
        child.shut_out = True
        child.stream.end(why)
