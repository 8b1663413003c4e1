"""Tokens with which a node asks for its certificate: one name, one role, one use, until a moment; kept as digests."""

import fcntl
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from hpfl.deployment.certificates import check_node_name, load_authority, role_of, write_secret
from hpfl.deployment.issued import CertificateError, NodeRole

ENROLMENT = "enrolment"
"""The name in the certificate of the enrolment service; no node bears it."""

_TOKENS, _LOCK = "tokens.json", "tokens.lock"
_SECRET_BYTES = 24
_MOST_CHARACTERS = 300


@dataclass(frozen=True)
class EnrolmentToken:
    """What a node is given: its name, a secret, and the digest by which it knows the authority."""

    name: str
    secret: str
    authority: str

    def __str__(self) -> str:
        return f"{self.name}:{self.secret}:{self.authority}"

    @staticmethod
    def read(text: str) -> "EnrolmentToken":
        """A token as it was printed."""
        parts = text.strip().split(":")
        if len(text) > _MOST_CHARACTERS or len(parts) != len(("name", "secret", "authority")) or not all(parts):
            raise CertificateError("this is no token; `hpfl certs token` prints one as NAME:SECRET:AUTHORITY")
        return EnrolmentToken(*parts)


@dataclass(frozen=True)
class KnownToken:
    """What the authority keeps of a token that has not been used: no secret, only its digest."""

    digest: str
    name: str
    role: NodeRole
    until_s: float


def make_token(folder: Path, name: str, *, role: NodeRole | None, valid_s: float) -> EnrolmentToken:
    """A new token for a node; one that the same node has not used stays valid beside it."""
    check_node_name(name)
    if name == ENROLMENT:
        raise CertificateError(f"{name!r} is the name of the enrolment service, and no node's")
    token = EnrolmentToken(name, secrets.token_urlsafe(_SECRET_BYTES), fingerprint(load_authority(folder).certificate))
    known = KnownToken(_digest(token.secret), name, role or role_of(name), time.time() + valid_s)
    with _opened(folder) as tokens:
        tokens.append(known)
    return token


def spend_token(folder: Path, secret: str, name: str) -> KnownToken:
    """The token of this secret and name, which is used up thereby; every other is refused in the same words."""
    with _opened(folder) as tokens:
        digest = _digest(secret)
        found = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
        if not found or found[0].name != name:
            raise CertificateError(f"no token for {name[:80]!r} fits: it was used, has expired, or is another's")
        tokens.remove(found[0])
    return found[0]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, hexadecimal."""
    return certificate.fingerprint(hashes.SHA256()).hex()


@contextmanager
def _opened(folder: Path) -> Iterator[list[KnownToken]]:
    """The tokens that are still good, for one process at a time; written back where nothing was refused."""
    with (folder / _LOCK).open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tokens = [token for token in _read(folder / _TOKENS) if token.until_s > time.time()]
        yield tokens
        write_secret(folder / _TOKENS, json.dumps([asdict(token) for token in tokens], indent=1).encode())


def _read(path: Path) -> list[KnownToken]:
    try:
        return [KnownToken(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError):
        raise CertificateError(f"{path} is damaged; remove it and make new tokens") from None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
