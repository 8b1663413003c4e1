"""How a parent proves which certificate it has, to children that read a revocation list: gRPC shows them none.

The child sends random bytes in its greeting. The parent signs them in its welcome, with the child's proven name and its
own certificate, by the key of that certificate. Whoever has a key that was revoked cannot sign by another one, and the
parent itself signs for nobody who has not proved that name to it.
"""

import asyncio
import logging
import secrets

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from hpfl.deployment.file_watch import LOOK_S
from hpfl.deployment.identity import OwnIdentity, certificates_in, is_issued_by, names_of, seconds_left
from hpfl.deployment.logs import log
from hpfl.deployment.revocations import RevocationList
from hpfl.deployment.settings import SettingsError, TlsSettings
from hpfl.deployment.stream import TierStream

_CHALLENGE_BYTES = 16
_MOST_BYTES = 65_536
_MEANING = b"hpfl.tier.v1 welcome\0"
_BY = ec.ECDSA(SHA256())


def proof(own: OwnIdentity, challenge: bytes, child: str) -> dict[str, bytes]:
    """What a welcome says of the parent's certificate to a child that asks; nothing to others."""
    key = load_pem_private_key(own.files.key, password=None) if len(challenge) == _CHALLENGE_BYTES else None
    if not isinstance(key, ec.EllipticCurvePrivateKey):  # `hpfl certs` makes no others
        return {}
    certificate = own.certificate.public_bytes(Encoding.DER)
    return {"certificate": certificate, "signature": key.sign(_signed(challenge, child, certificate), _BY)}


class ParentProof:
    """One child's view of its parent's certificate; where no list of revoked ones is read, it asks for nothing."""

    def __init__(self, tls: TlsSettings, *, child: str, parent: str) -> None:
        self._tls = tls
        self._revoked = RevocationList(tls.revoked, self._trusted)
        self._child, self._parent = child, parent
        self._challenge = b""
        self._shown: x509.Certificate | None = None

    def challenge(self) -> bytes:
        """What the parent of a new stream has to sign; empty where it need not."""
        self._shown = None
        self._challenge = secrets.token_bytes(_CHALLENGE_BYTES) if self._revoked.is_read else b""
        return self._challenge

    @property
    def is_owed(self) -> bool:
        """Whether the parent has not proved yet what it must."""
        return bool(self._challenge) and self._shown is None

    def check(self, certificate: bytes, signature: bytes) -> None:
        """Believe what a welcome shows, or end the stream: it must be the parent's, valid now and not revoked."""
        if not self._challenge:
            return
        try:
            why = self._why_not(certificate, signature)
        except SettingsError as error:
            why = str(error)
        if why:
            log("parent refused", level=logging.WARNING, parent=self._parent, reason=why)
            raise ConnectionError(why)

    async def watch(self, stream: TierStream) -> None:
        """End a stream once its parent's certificate is revoked."""
        while self._revoked.is_read:
            await asyncio.sleep(LOOK_S)
            self._revoked.has_changed()
            if self._shown is not None and self._revoked.has(self._shown):
                log("parent refused", level=logging.WARNING, parent=self._parent, reason=self._is_revoked)
                stream.end()
                return

    def _why_not(self, shown: bytes, signature: bytes) -> str:
        """Why the parent is not to be believed, as a sentence; empty where it is."""
        if not shown:
            return f"{self._parent} proves no certificate, and tls.revoked asks for it; is its release an older one?"
        certificate = _loaded(shown)
        if certificate is None or not self._vouched_for(certificate) or names_of(certificate) != [self._parent]:
            return f"{self._parent} shows a certificate that is not its own, or of no authority that is trusted here"
        if not _has_signed(certificate, signature, _signed(self._challenge, self._child, shown)):
            return f"{self._parent} shows a certificate whose key it does not have"
        if seconds_left(certificate) < 0:
            return f"the certificate of {self._parent} expired on {certificate.not_valid_after_utc:%d %B %Y}"
        self._revoked.has_changed()
        if self._revoked.has(certificate):
            return self._is_revoked
        self._shown = certificate
        return ""

    def _vouched_for(self, certificate: x509.Certificate) -> bool:
        return any(is_issued_by(certificate, authority) for authority in self._trusted())

    def _trusted(self) -> list[x509.Certificate]:
        """As the file says now: authorities may have been replaced."""
        return certificates_in(self._tls.ca)

    @property
    def _is_revoked(self) -> str:
        return f"the certificate of {self._parent} has been revoked"


def _signed(challenge: bytes, child: str, certificate: bytes) -> bytes:
    """What is signed: all of it has one length but the certificate, which comes last and knows its own."""
    name = child.encode()
    return _MEANING + challenge + len(name).to_bytes(4, "big") + name + certificate


def _loaded(shown: bytes) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(shown) if len(shown) <= _MOST_BYTES else None
    except (ValueError, x509.InvalidVersion):
        return None


def _has_signed(certificate: x509.Certificate, signature: bytes, message: bytes) -> bool:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, message, _BY)
    except InvalidSignature:
        return False
    return True
