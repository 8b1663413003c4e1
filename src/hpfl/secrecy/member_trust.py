"""Who a member is: certificates of the deployment's authority, made for UEs, and signatures of their keys."""

import datetime
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from hpfl.secrecy.secrecy_errors import SecrecyError

_KEPT = 4096
_ALGORITHM = ec.ECDSA(hashes.SHA256())

KeptKey = TypeVar("KeptKey")
KeptValue = TypeVar("KeptValue")

Authorities = Callable[[], Sequence[x509.Certificate]]


class Identity(Protocol):
    """A member towards the others: its number, the certificate that goes along (DER), and what signs for it."""

    number: int
    certificate: bytes

    def sign(self, message: bytes) -> bytes:
        """A signature by the certificate's key."""
        ...


class Trust(Protocol):
    """How a member checks another."""

    def check(self, number: int, certificate: bytes, message: bytes, signature: bytes) -> str:
        """The name that has been proved; `SecrecyError` if none has. No two members may prove one name."""
        ...


class CertifiedMember:
    """A UE with a certificate of the authority and its key (ECDSA, SHA-256)."""

    def __init__(self, number: int, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        if certificate.public_key() != key.public_key():
            raise SecrecyError("the certificate and the key do not belong together: another key was certified")
        self.number, self._key = number, key
        self.certificate = certificate.public_bytes(Encoding.DER)

    def sign(self, message: bytes) -> bytes:
        """A signature by the certificate's key."""
        return self._key.sign(message, _ALGORITHM)


class CertificateTrust:
    """Trusts certificates that an authority has made for UEs, that stand now, and that no list revokes.

    `name_of` tells whose certificate a number must have, where that is known; None accepts any UE's. `now` is asked
    for the time, in UTC. What was verified once is remembered; time and revocation are looked at each time.
    """

    def __init__(
        self,
        authorities: Authorities,
        now: Callable[[], datetime.datetime],
        *,
        is_revoked: Callable[[x509.Certificate], bool] = lambda certificate: False,
        name_of: Callable[[int], str | None] = lambda number: None,
    ) -> None:
        self._authorities, self._now, self._is_revoked, self._name_of = authorities, now, is_revoked, name_of
        self._issued: OrderedDict[bytes, tuple[x509.Certificate, x509.Certificate, str]] = OrderedDict()
        self._verified: OrderedDict[tuple[bytes, bytes, bytes], None] = OrderedDict()

    def check(self, number: int, certificate: bytes, message: bytes, signature: bytes) -> str:
        """The name that has been proved; `SecrecyError` if none has."""
        try:
            return self._proved(number, certificate, message, signature)
        except SecrecyError as error:
            raise SecrecyError(f"member {number}: {error}", [number]) from None

    def _proved(self, number: int, certificate: bytes, message: bytes, signature: bytes) -> str:
        shown, name = self._of_an_authority(certificate)
        _check_time(shown, self._now())
        if self._is_revoked(shown):
            raise SecrecyError("its certificate is revoked")
        wanted = self._name_of(number)
        if wanted is not None and name != wanted:
            raise SecrecyError(f"the certificate of {name[:80]!r} came; wanted that of {wanted!r}")
        if (certificate, message, signature) not in self._verified:
            _verify(shown, message, signature)
            _keep(self._verified, (certificate, message, signature), None)
        return name

    def _of_an_authority(self, certificate: bytes) -> tuple[x509.Certificate, str]:
        """A UE's certificate, signed by an authority that stands now, and its name; remembered with the authority."""
        standing = self._authorities()
        found = self._issued.get(certificate)
        if found is None or found[0] not in standing:
            found = _issued_by_one(certificate, standing)
            _keep(self._issued, certificate, found)
        authority, shown, name = found
        _check_time(authority, self._now())
        return shown, name


def _keep(kept: OrderedDict[KeptKey, KeptValue], key: KeptKey, value: KeptValue) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)


def _verify(certificate: x509.Certificate, message: bytes, signature: bytes) -> None:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SecrecyError("its certificate has no elliptic-curve key")
    try:
        key.verify(signature, message, _ALGORITHM)
    except InvalidSignature:
        raise SecrecyError("its keys are not signed by the key of its certificate") from None


def _issued_by_one(
    certificate: bytes, authorities: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, x509.Certificate, str]:
    """The authority that has signed a certificate, the certificate, and the UE's name in it."""
    for authority in authorities:
        try:
            found = x509.load_der_x509_certificate(certificate)
            found.verify_directly_issued_by(authority)
        except (ValueError, TypeError, x509.InvalidVersion, InvalidSignature, UnsupportedAlgorithm):
            continue
        return authority, found, _name_of_ue(found)
    raise SecrecyError("its certificate was not issued by an authority of this deployment")


def _check_time(certificate: x509.Certificate, now: datetime.datetime) -> None:
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        span = f"{certificate.not_valid_before_utc:%d %B %Y} to {certificate.not_valid_after_utc:%d %B %Y}"
        raise SecrecyError(f"its certificate, or its authority's, stands from {span}, not now")


def _name_of_ue(certificate: x509.Certificate) -> str:
    """The one name in a certificate that is made for a UE: to connect, and neither to serve nor to sign others."""
    try:
        extensions = certificate.extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
        uses = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        signs = extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError) as error:
        raise SecrecyError(f"its certificate is not one of a UE's ({error})") from None
    if uses != {ExtendedKeyUsageOID.CLIENT_AUTH} or is_authority or not signs:
        raise SecrecyError("its certificate is not one of a UE's: it is made to serve others or to sign certificates")
    if len(names) != 1:
        raise SecrecyError(f"its certificate bears {len(names)} names; wanted one")
    return names[0]
