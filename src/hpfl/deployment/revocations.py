"""The list of revoked certificates that a node reads, again whenever its file changes."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509

from hpfl.deployment.file_watch import WatchedFiles
from hpfl.deployment.logs import log
from hpfl.deployment.settings import SettingsError

_LARGEST_LIST_BYTES = 16_000_000

Trusted = Callable[[], Sequence[x509.Certificate]]
"""The authorities that a node trusts now."""


class RevocationList:
    """Serial numbers that a trusted authority has revoked, as a file says now; none where no file is named."""

    def __init__(self, path: str, trusted: Trusted) -> None:
        self._path, self._trusted = path, trusted
        self._watched = WatchedFiles([path] if path else [])
        self._serials = revoked_serials(Path(path), trusted()) if path else frozenset()

    @property
    def is_read(self) -> bool:
        """Whether there is a file."""
        return bool(self._path)

    def has(self, certificate: x509.Certificate) -> bool:
        """Whether a certificate has been revoked."""
        return certificate.serial_number in self._serials

    def has_changed(self) -> bool:
        """Look at the file; whether the list is another now. A faulty file changes nothing, and its fault is logged."""
        if not self._path or not self._watched.have_changed():
            return False
        try:
            self._serials = revoked_serials(Path(self._path), self._trusted())
        except SettingsError as error:
            log("revocations not changed", level=logging.WARNING, reason=str(error))
            return False
        log("revocations changed", revoked=len(self._serials))
        return True


def revoked_serials(path: Path, authorities: Sequence[x509.Certificate]) -> frozenset[int]:
    """Serial numbers on a revocation list, which one of the trusted authorities must have signed."""
    try:
        if path.stat().st_size > _LARGEST_LIST_BYTES:
            raise SettingsError(f"{path} has {path.stat().st_size} bytes; wanted at most {_LARGEST_LIST_BYTES}")
        listed = x509.load_pem_x509_crl(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); `hpfl certs revoke` makes it") from None
    except ValueError:
        raise SettingsError(f"{path} is not a revocation list; `hpfl certs revoke` makes one") from None
    if not any(listed.is_signature_valid(one.public_key()) for one in authorities):  # type: ignore[arg-type]
        raise SettingsError(f"{path} was not signed by an authority that this node trusts")
    return frozenset(one.serial_number for one in listed)
