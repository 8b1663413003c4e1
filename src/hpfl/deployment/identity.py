"""A node's own certificate, key and authorities: checked when it starts, and read again whenever the files change."""

import datetime
import logging
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from hpfl.deployment.file_watch import WatchedFiles
from hpfl.deployment.logs import log
from hpfl.deployment.security import TlsFiles, read_files
from hpfl.deployment.settings import NodeSettings, SettingsError, TlsSettings

ANNOUNCED_S = 30 * 86_400.0
"""How long before its end a certificate's end is announced."""

_EVERY_S = 86_400.0
_SERVES = (ExtendedKeyUsageOID.SERVER_AUTH, "serve others")
_CONNECTS = (ExtendedKeyUsageOID.CLIENT_AUTH, "connect to a parent")


class OwnIdentity:
    """What a node shows and whom it trusts, as its files say now; files that do not fit together change nothing."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._watched = WatchedFiles([tls.ca, tls.certificate, tls.private_key])
        self._notices = ExpiryNotices()
        self._take(read_files(tls))

    def has_changed(self) -> bool:
        """Look at the files; whether the node shows or trusts another certificate now."""
        if not self._watched.have_changed():
            return False
        try:
            self._take(read_files(self._tls))
        except SettingsError as error:
            log("certificate not changed", level=logging.WARNING, reason=str(error))
            return False
        log("certificate changed", days_left=round(seconds_left(self.certificate) / 86_400, 1))
        return True

    @property
    def left_s(self) -> float:
        """Seconds until the certificate, or the last authority that vouches for it, has expired."""
        vouching = [seconds_left(one) for one in self.authorities if is_issued_by(self.certificate, one)]
        return min(seconds_left(self.certificate), max(vouching))

    def announce(self) -> None:
        """Log, once a day, that the certificate or an authority is about to expire."""
        self._notices.say(self.certificate, "this node")
        for authority in self.authorities:
            self._notices.say(authority, "the authority")

    def vouches_for(self, certificate: x509.Certificate) -> bool:
        """Whether an authority that this node trusts has issued a certificate."""
        return any(is_issued_by(certificate, authority) for authority in self.authorities)

    def _take(self, files: TlsFiles) -> None:
        certificate, authorities = _checked(files, self._tls)
        self.files, self.certificate, self.authorities = files, certificate, authorities


class ExpiryNotices:
    """Says of each certificate that it expires soon, at most once a day."""

    def __init__(self) -> None:
        self._said_s: dict[int, float] = {}

    def say(self, certificate: x509.Certificate, whose: str) -> None:
        """Log that a certificate expires within 30 days, if it does and if that is news."""
        left_s, now_s = seconds_left(certificate), _now().timestamp()
        if left_s > ANNOUNCED_S or now_s - self._said_s.get(certificate.serial_number, 0.0) < _EVERY_S:
            return
        self._said_s = {serial: said_s for serial, said_s in self._said_s.items() if now_s - said_s < _EVERY_S}
        self._said_s[certificate.serial_number] = now_s
        until = certificate.not_valid_after_utc.isoformat()
        days = round(left_s / 86_400, 1)
        log("certificate expires soon", level=logging.WARNING, whose=whose, days_left=days, valid_until=until)


def check_own_certificate(settings: NodeSettings, *, serves: bool, connects: bool) -> OwnIdentity:
    """The identity in a node's file, if it bears the node's name and may do what the node does."""
    own = OwnIdentity(settings.tls)
    where, names = settings.tls.certificate, names_of(own.certificate)
    if names != [settings.name]:
        raise SettingsError(f"{where} is the certificate of {', '.join(names) or 'nobody'}; name is {settings.name!r}")
    uses = _uses_of(own.certificate)
    for (use, words), wanted in ((_SERVES, serves), (_CONNECTS, connects)):
        if wanted and use not in uses:
            raise SettingsError(f"{where} is not made to {words}; issue one of the right role (--role)")
    return own


def seconds_left(certificate: x509.Certificate) -> float:
    """Seconds until a certificate expires; below 0 where it has."""
    return (certificate.not_valid_after_utc - _now()).total_seconds()


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names a certificate bears."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(found.value.get_values_for_type(x509.DNSName))


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def certificates_in(path: str) -> list[x509.Certificate]:
    """Those in a file, such as the authorities that a node trusts."""
    try:
        return _loaded(Path(path).read_bytes(), path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror})") from None


def _checked(files: TlsFiles, tls: TlsSettings) -> tuple[x509.Certificate, list[x509.Certificate]]:
    """The certificate and the authorities; refused where they and the key do not belong together, or not now."""
    authorities = _loaded(files.ca, tls.ca)
    certificate = _loaded(files.certificate, tls.certificate)[0]
    try:
        key = load_pem_private_key(files.key, password=None)
    except (ValueError, TypeError):
        raise SettingsError(f"{tls.private_key} is not a private key") from None
    if _public(key) != _public(certificate):
        raise SettingsError(
            f"{tls.certificate} and {tls.private_key} do not belong together: another key was certified"
        )
    _check_time(certificate, tls.certificate)
    issuers = [authority for authority in authorities if is_issued_by(certificate, authority)]
    if not issuers:
        raise SettingsError(f"{tls.certificate} was not issued by the authority in {tls.ca}")
    if all(seconds_left(issuer) < 0 for issuer in issuers):
        raise SettingsError(f"the authority in {tls.ca} expired on {issuers[0].not_valid_after_utc:%d %B %Y}")
    return certificate, authorities


def _check_time(certificate: x509.Certificate, path: str) -> None:
    if seconds_left(certificate) < 0:
        raise SettingsError(f"{path} expired on {certificate.not_valid_after_utc:%d %B %Y}; `hpfl certs renew` it")
    if certificate.not_valid_before_utc > _now():
        since = certificate.not_valid_before_utc.isoformat()
        raise SettingsError(f"{path} is not valid before {since}; is this machine's clock right?")


def _loaded(pem: bytes, path: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise SettingsError(f"{path} is not a certificate") from None


def _public(holder: object) -> bytes:
    key = holder.public_key()  # type: ignore[attr-defined]
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def _uses_of(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return []


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
