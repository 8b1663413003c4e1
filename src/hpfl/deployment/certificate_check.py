"""Whether a node's certificate, its key and its authority belong together, are valid now, and say what the node is."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from hpfl.deployment.certificates import CertificateError
from hpfl.deployment.settings import SettingsError, TlsSettings

_SOON = datetime.timedelta(days=30)
_NEEDS = {
    "cloud": {ExtendedKeyUsageOID.SERVER_AUTH},
    "edge": {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH},
    "ue": {ExtendedKeyUsageOID.CLIENT_AUTH},
}


def checked_files(tls: TlsSettings) -> str:
    """Refuse files that cannot be read, and a key that others can read."""
    for path in (tls.ca, tls.certificate, tls.private_key):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise SettingsError(
                f"{path} cannot be read ({error.strerror}); `hpfl certs issue` makes it, and this user must own it"
            ) from None
    if Path(tls.private_key).stat().st_mode & 0o077:
        raise SettingsError(
            f"{tls.private_key} can be read by others than its owner; run `chmod 600 {tls.private_key}`"
        )
    return f"{tls.ca}, {tls.certificate} and {tls.private_key} can be read, the key by its owner alone"


def checked_certificate(tls: TlsSettings, name: str, role: str) -> str:
    """Refuse a certificate that no peer would accept from a node of this name and role."""
    try:
        authority = x509.load_pem_x509_certificate(Path(tls.ca).read_bytes())
        own = x509.load_pem_x509_certificate(Path(tls.certificate).read_bytes())
        key = serialization.load_pem_private_key(Path(tls.private_key).read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise CertificateError(f"certificates cannot be read: {error}") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if own.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        raise CertificateError(
            f"{tls.certificate} and {tls.private_key} do not belong together; take both from one `hpfl certs issue`"
        )
    _refuse_other_authority(own, authority, tls)
    _refuse_other_node(own, name, role, tls)
    left = min(_left(own, tls.certificate), _left(authority, tls.ca))
    soon = "; issue a new one soon" if left < _SOON else ""
    return f"{name}, made for this {role} by our authority, valid for {left.days} more days{soon}"


def _refuse_other_authority(own: x509.Certificate, authority: x509.Certificate, tls: TlsSettings) -> None:
    try:
        own.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise CertificateError(
            f"{tls.certificate} was not signed by the authority of {tls.ca}; take both from one folder of `hpfl certs`"
        ) from None


def _refuse_other_node(own: x509.Certificate, name: str, role: str, tls: TlsSettings) -> None:
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uses = set(own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound as error:
        raise CertificateError(f"{tls.certificate} is no node's certificate ({error})") from None
    found = names.get_values_for_type(x509.DNSName)
    if found != [name]:
        raise CertificateError(f"{tls.certificate} is for {', '.join(found)}; this node's name is {name}")
    if not uses >= _NEEDS[role]:
        raise CertificateError(
            f"{tls.certificate} was not issued for the role {role}; run `hpfl certs issue ... {name} --role {role}`"
        )


def _left(certificate: x509.Certificate, path: str) -> datetime.timedelta:
    now = datetime.datetime.now(datetime.UTC)
    if now < certificate.not_valid_before_utc:
        raise CertificateError(
            f"{path} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; look at this machine's clock"
        )
    if now > certificate.not_valid_after_utc:
        raise CertificateError(
            f"{path} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; issue a new one"
        )
    return certificate.not_valid_after_utc - now
