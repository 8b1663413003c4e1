"""Whose keys are believed in a secure sum: those of UEs with certificates of an authority that this node trusts."""

import datetime

from hpfl.deployment.identity import OwnIdentity
from hpfl.deployment.node_names import default_name
from hpfl.deployment.revocations import RevocationList
from hpfl.deployment.settings import SettingsError, TlsSettings
from hpfl.secrecy import CertificateTrust


class DeploymentTrust:
    """What a node's files say now of authorities and revoked certificates."""

    def __init__(self, tls: TlsSettings) -> None:
        self.own = OwnIdentity(tls)
        self._revoked = RevocationList(tls.revoked, lambda: self.own.authorities)
        self._trust = CertificateTrust(
            lambda: self.own.authorities,
            lambda: datetime.datetime.now(datetime.UTC),
            is_revoked=self._revoked.has,
            name_of=default_name,
        )

    def look(self) -> bool:
        """Read files again that have changed; whether any has."""
        looked = (self.own.has_changed(), self._revoked.has_changed())
        return any(looked)

    def check(self, number: int, certificate: bytes, message: bytes, signature: bytes) -> str:
        """The name that a member has proved."""
        return self._trust.check(number, certificate, message, signature)


def check_name(name: str, number: int) -> None:
    """Refuse a name that does not say whose seat it is: members could not tell who sits at another's."""
    if name != default_name(number):
        raise SettingsError(
            f'UE {number} is called {name!r}, and secure.aggregation is "cell"; wanted {default_name(number)!r}: under '
            "masks UEs must know each other's names by their numbers"
        )
