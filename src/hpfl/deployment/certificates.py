"""A private certificate authority for one deployment: makes it, replaces it, and issues a certificate per node.

Names are `cloud`, `edge-K` and `ue-N`, or whatever the rosters of the configuration files say. A certificate carries
its role: a UE's opens connections only, the cloud's accepts them only, an edge's does both.
"""

import datetime
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hpfl.deployment.issued import (
    REVOKED,
    CertificateError,
    IssuedRecord,
    NodeRole,
    issued_to,
    newest_of,
    note_issued,
    revocations,
)
from hpfl.deployment.node_names import NODE_NAME, NODE_NAME_IS

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
_USES = {
    "cloud": [ExtendedKeyUsageOID.SERVER_AUTH],
    "edge": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    "ue": [ExtendedKeyUsageOID.CLIENT_AUTH],
}
_CLOCK_SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class Authority:
    """Whoever signs: its certificate, its key, and the folder where it keeps note of what it has signed."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    folder: Path


def init_authority(folder: Path, *, days: int = 3650) -> Authority:
    """Make an authority in `folder`; one that is there already is never replaced."""
    if (folder / CA_KEY).exists() or (folder / CA_CERTIFICATE).exists():
        raise CertificateError(f"{folder} holds an authority already; choose another folder")
    authority = _self_signed(folder, days)
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / CA_KEY, _key_pem(authority.key))
    write_whole(folder / CA_CERTIFICATE, pem_of(authority.certificate))
    return authority


def begin_rotation(folder: Path, *, days: int = 3650) -> Authority:
    """Make another authority beside the one in `folder`: it signs from now on, and `ca.pem` vouches for both."""
    load_authority(folder)  # there is one, and it is whole
    known = trusted_in(folder)
    authority = _self_signed(folder, days)
    write_whole(folder / CA_CERTIFICATE, b"".join(map(pem_of, [authority.certificate, *known])))
    write_secret(folder / CA_KEY, _key_pem(authority.key))
    if (folder / REVOKED).exists():
        revoke(authority, [])
    return authority


def revoke(authority: Authority, names: list[str]) -> Path:
    """Put all certificates of some names that are not expired on the revocation list, signed anew; its path."""
    now_s = datetime.datetime.now(datetime.UTC).timestamp()
    records = [record for name in names for record in issued_to(authority.folder, name)]
    serials = [int(record.serial, 16) for record in records if record.until_s > now_s]
    path = authority.folder / REVOKED
    write_whole(path, revocations(authority.folder, authority.key, authority.certificate.subject, serials))
    return path


def finish_rotation(folder: Path) -> int:
    """Leave in `ca.pem` the authority that signs now, and no other; how many were taken out."""
    authority, known = load_authority(folder), trusted_in(folder)
    write_whole(folder / CA_CERTIFICATE, pem_of(authority.certificate))
    return len(known) - 1


def trusted_in(folder: Path) -> list[x509.Certificate]:
    """The authorities in `ca.pem`."""
    return x509.load_pem_x509_certificates((folder / CA_CERTIFICATE).read_bytes())


def _self_signed(folder: Path, days: int) -> Authority:
    """No two authorities bear one name: an issuer is looked up by its name when a certificate is verified."""
    name = f"hpfl deployment {secrets.token_hex(4)}"
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key(), _validity(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Authority(builder.sign(key, hashes.SHA256()), key, folder)


def load_authority(folder: Path) -> Authority:
    """The authority that `init_authority` left in `folder`."""
    try:
        certificates = trusted_in(folder)
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise CertificateError(f"{folder} holds no authority ({error}); make one with `hpfl certs init`") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{folder / CA_KEY} is not an elliptic-curve key")
    for certificate in certificates:
        if certificate.public_key() == key.public_key():
            return Authority(certificate, key, folder)
    raise CertificateError(f"{folder / CA_CERTIFICATE} and {folder / CA_KEY} do not belong together")


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
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = certified(authority, key.public_key(), name, role=role, validity=validity or _validity(days))
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / f"{name}.key", _key_pem(key))
    path = folder / f"{name}.pem"
    write_whole(path, pem_of(certificate))
    return path


def renew(authority: Authority, folder: Path, name: str, *, days: int = 365) -> Path:
    """Write another `NAME.pem` for the key and the role that the newest certificate of that name has; its path."""
    record = newest_of(authority.folder, name)
    known = x509.load_pem_x509_certificate(record.certificate.encode()).public_key()
    certificate = certified(authority, known, name, role=record.role, validity=_validity(days))
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.pem", pem_of(certificate))
    return folder / f"{name}.pem"


def certified(
    authority: Authority,
    key: Any,
    name: str,
    *,
    role: NodeRole | None = None,
    validity: tuple[datetime.datetime, datetime.datetime] | None = None,
) -> x509.Certificate:
    """A certificate of a public key for a node (a year unless said), of which the authority keeps note."""
    check_node_name(name)
    role = role or role_of(name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, authority.certificate.subject, key, validity or _validity(365))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(_USES[role]), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    until_s = certificate.not_valid_after_utc.timestamp()
    pem = pem_of(certificate).decode()
    note_issued(authority.folder, IssuedRecord(name, role, f"{certificate.serial_number:x}", until_s, pem))
    return certificate


def check_node_name(name: str) -> None:
    """Refuse a name that no certificate may bear, or whose files would be the authority's own."""
    if not NODE_NAME.fullmatch(name):
        raise CertificateError(f"{name[:80]!r} is no node name: {NODE_NAME_IS}")
    if f"{name}.pem" in {CA_CERTIFICATE, REVOKED}:
        raise CertificateError(f"{name!r} is no node name: {name}.pem is the authority's own")


def role_of(name: str) -> NodeRole:
    """The role a name speaks of: `edge-3` is an edge, `ue-7` a UE, `cloud` the cloud."""
    roles: tuple[NodeRole, ...] = ("cloud", "edge", "ue")
    for role in roles:
        if name == role or name.startswith(f"{role}-"):
            return role
    raise CertificateError(f"{name!r} does not tell a role (cloud, edge-K, ue-N); say which with --role")


def write_secret(path: Path, content: bytes) -> None:
    """A file that its owner alone can read, from the first instant on, whatever was there before."""
    _put(path, content, 0o600)


def write_whole(path: Path, content: bytes) -> None:
    """A file that is never seen half written, by nodes that read it again when it changes."""
    _put(path, content, 0o644)


def _put(path: Path, content: bytes, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: Any,
    validity: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public_key,
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


def pem_of(certificate: x509.Certificate) -> bytes:
    """A certificate as it lies in files."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
