"""A private certificate authority for one deployment: makes it, and issues a certificate per node.

Names are `cloud`, `edge-K` and `ue-N`, or whatever the rosters of the configuration files say. A certificate carries
its role: a UE's opens connections only, the cloud's accepts them only, an edge's does both.
"""

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NodeRole = Literal["cloud", "edge", "ue"]

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_USES = {
    "cloud": [ExtendedKeyUsageOID.SERVER_AUTH],
    "edge": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    "ue": [ExtendedKeyUsageOID.CLIENT_AUTH],
}
_CLOCK_SKEW = datetime.timedelta(minutes=5)


class CertificateError(ValueError):
    """A certificate that cannot be made; the message says why."""


@dataclass(frozen=True)
class Authority:
    """Whoever signs: its certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def init_authority(folder: Path, *, name: str = "hpfl deployment", days: int = 3650) -> Authority:
    """Make an authority in `folder`; one that is there already is never replaced."""
    if (folder / CA_KEY).exists() or (folder / CA_CERTIFICATE).exists():
        raise CertificateError(f"{folder} holds an authority already; choose another folder")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key, _validity(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    authority = Authority(builder.sign(key, hashes.SHA256()), key)
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / CA_KEY, _key_pem(key))
    (folder / CA_CERTIFICATE).write_bytes(_pem(authority.certificate))
    return authority


def load_authority(folder: Path) -> Authority:
    """The authority that `init_authority` left in `folder`."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise CertificateError(f"{folder} holds no authority ({error}); make one with `hpfl certs init`") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{folder / CA_KEY} is not an elliptic-curve key")
    return Authority(certificate, key)


def issue(
    authority: Authority,
    folder: Path,
    name: str,
    *,
    role: NodeRole | None = None,
    validity: tuple[datetime.datetime, datetime.datetime] | None = None,
    days: int = 365,
) -> Path:
    """Write `NAME.pem` and `NAME.key` (readable by its owner alone) into `folder`; the certificate's path."""
    if not _NAME.fullmatch(name):
        raise CertificateError(f"{name!r} is no node name: lower-case letters, digits, dots and dashes, at most 63")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, authority.certificate.subject, key, validity or _validity(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(_USES[role or role_of(name)]), critical=False)
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / f"{name}.key", _key_pem(key))
    path = folder / f"{name}.pem"
    path.write_bytes(_pem(builder.sign(authority.key, hashes.SHA256())))
    return path


def role_of(name: str) -> NodeRole:
    """The role a name speaks of: `edge-3` is an edge, `ue-7` a UE, `cloud` the cloud."""
    roles: tuple[NodeRole, ...] = ("cloud", "edge", "ue")
    for role in roles:
        if name == role or name.startswith(f"{role}-"):
            return role
    raise CertificateError(f"{name!r} does not tell a role (cloud, edge-K, ue-N); say which with --role")


def write_secret(path: Path, content: bytes) -> None:
    """A file that its owner alone can read, from the first instant on, whatever was there before."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    validity: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=validity[0],
        not_valid_after=validity[1],
    )


def _validity(days: int) -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    return now - _CLOCK_SKEW, now + datetime.timedelta(days=days)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
