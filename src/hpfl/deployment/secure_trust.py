"""Whose keys are believed in a secure sum: those of UEs with certificates of an authority that this node trusts."""

import datetime
from collections.abc import Callable

from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.revocations import RevocationList
from hpfl.deployment.settings import TlsSettings
from hpfl.secrecy import CertificateTrust

NameOf = Callable[[int], str | None]
"""Who sits at a number; None: whoever has a certificate of a UE's."""


class DeploymentTrust:
    """What a node's files say now of authorities and revoked certificates."""

    def __init__(self, tls: TlsSettings, name_of: NameOf) -> None:
        self.own = OwnIdentity(tls)
        self._revoked = RevocationList(tls.revoked, lambda: self.own.authorities)
        self._trust = CertificateTrust(
            lambda: self.own.authorities,
            lambda: datetime.datetime.now(datetime.UTC),
            is_revoked=self._revoked.has,
            name_of=name_of,
        )

    def look(self) -> bool:
        """Read files again that have changed; whether any has."""
        looked = (self.own.has_changed(), self._revoked.has_changed())
        return any(looked)

    def check(self, number: int, certificate: bytes, message: bytes, signature: bytes) -> str:
        """The name that a member has proved."""
        return self._trust.check(number, certificate, message, signature)
