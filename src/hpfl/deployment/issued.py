"""What an authority keeps note of in its folder: the certificates it has signed, and the list of those revoked."""

import datetime
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

NodeRole = Literal["cloud", "edge", "ue"]

REVOKED = "revoked.pem"
_ISSUED = "issued.jsonl"
_LIST_DAYS = 3650


class CertificateError(ValueError):
    """A certificate that cannot be made, or done without; the message says why."""


@dataclass(frozen=True)
class IssuedRecord:
    """One certificate: for whom, in which role, its serial number (hexadecimal), its end (s since 1970), itself."""

    name: str
    role: NodeRole
    serial: str
    until_s: float
    certificate: str


def note_issued(folder: Path, record: IssuedRecord) -> None:
    """Add a certificate to those that are known."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _ISSUED).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record)) + "\n")


def issued_to(folder: Path, name: str) -> list[IssuedRecord]:
    """The certificates of a name, oldest first."""
    try:
        lines = (folder / _ISSUED).read_text(encoding="utf-8").splitlines()
        records = [IssuedRecord(**json.loads(line)) for line in lines]
    except FileNotFoundError:
        records = []
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{folder / _ISSUED} is damaged: {error}") from None
    found = [record for record in records if record.name == name]
    if not found:
        raise CertificateError(f"{folder / _ISSUED} knows of no certificate for {name!r}")
    return found


def newest_of(folder: Path, name: str) -> IssuedRecord:
    """The certificate of a name that was signed last."""
    return issued_to(folder, name)[-1]


def revocations(folder: Path, key: Any, issuer: x509.Name, serials: Iterable[int] = ()) -> bytes:
    """The revocation list in `folder` with some serial numbers more, signed anew with the authority's key."""
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer)
    builder = builder.last_update(now).next_update(now + datetime.timedelta(days=_LIST_DAYS))
    before = {one.serial_number: one.revocation_date_utc for one in _listed(folder)}
    for serial, date in {**dict.fromkeys(serials, now), **before}.items():
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _listed(folder: Path) -> Iterable[x509.RevokedCertificate]:
    path = folder / REVOKED
    if not path.exists():
        return []
    try:
        return list(x509.load_pem_x509_crl(path.read_bytes()))
    except ValueError:
        raise CertificateError(f"{path} is not a revocation list; put it back from a parent's copy") from None
