"""Requests for a certificate, made where the key is and stays, and what an authority makes of them."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hpfl.deployment.certificates import Authority, certified, check_node_name, write_secret, write_whole
from hpfl.deployment.issued import CertificateError, NodeRole

MOST_REQUEST_BYTES = 8192


def make_request(folder: Path, name: str) -> Path:
    """Write `NAME.csr` with a new key beside it, `NAME.new.key`, which becomes `NAME.key` with the certificate."""
    check_node_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_secret(folder / f"{name}.new.key", private)
    write_whole(folder / f"{name}.csr", request.public_bytes(serialization.Encoding.PEM))
    return folder / f"{name}.csr"


def read_request(pem: bytes) -> tuple[str, ec.EllipticCurvePublicKey]:
    """The name and the key of a request, whose author has that key; anything else is refused."""
    if len(pem) > MOST_REQUEST_BYTES:
        raise CertificateError(f"a request of {len(pem)} bytes came, wanted at most {MOST_REQUEST_BYTES}")
    try:
        request = x509.load_pem_x509_csr(pem)
        key, signed = request.public_key(), request.is_signature_valid
    except Exception as error:  # noqa: BLE001  bytes of anybody: whatever a parser says of them, they are no request
        raise CertificateError(f"this is no request for a certificate: {type(error).__name__}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError("the request is for another kind of key than an elliptic-curve one (P-256)")
    names = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not signed or len(names) != 1:
        raise CertificateError("the request is not signed with its key, or does not bear one name")
    return names[0], key


def sign_request(authority: Authority, pem: bytes, *, role: NodeRole | None = None) -> tuple[str, x509.Certificate]:
    """The name in a request, and a certificate for its key."""
    name, key = read_request(pem)
    return name, certified(authority, key, name, role=role)


def take_certificate(folder: Path, name: str, certificate: bytes) -> Path:
    """Put a certificate beside the key that asked for it, and both in the place of those before; its path."""
    fresh = folder / f"{name}.new.key"
    try:
        key = serialization.load_pem_private_key(fresh.read_bytes(), password=None)
        found = x509.load_pem_x509_certificate(certificate)
    except (OSError, ValueError) as error:
        raise CertificateError(f"the certificate for {name!r} cannot be taken: {error}") from None
    if found.public_key() != key.public_key():
        raise CertificateError(f"the certificate that came is not for the key in {fresh}")
    fresh.replace(folder / f"{name}.key")
    write_whole(folder / f"{name}.pem", certificate)
    return folder / f"{name}.pem"
