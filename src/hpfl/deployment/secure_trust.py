"""Whose keys are believed in a secure sum: those of UEs with certificates of an authority that this node trusts."""

import datetime
import re
from collections.abc import Callable

from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.node_names import default_name
from hpfl.deployment.revocations import RevocationList
from hpfl.deployment.settings import TlsSettings
from hpfl.secrecy import CertificateTrust, SecrecyError

NameOf = Callable[[int], str | None]
"""Who sits at a number; None: whoever has a certificate of a UE's."""


_USUAL = re.compile(r"ue-[0-9]+")


class DeploymentTrust:
    """What a node's files say now of authorities and revoked certificates.

    Where `names_tell`, whoever is called as a number has it, `ue-7`, sits there and nowhere else.
    """

    def __init__(self, tls: TlsSettings, name_of: NameOf, *, names_tell: bool = False) -> None:
        self._names_tell = names_tell
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
        name = self._trust.check(number, certificate, message, signature)
        if self._names_tell and _USUAL.fullmatch(name) and name != default_name(number):
            raise SecrecyError(f"{name!r} sits at number {number}, which is not its own", [number])
        return name
