"""The enrolment service: signs the request of whoever has a token, over TLS; and the node's side of it."""

import json
import logging
import socket
import ssl
import threading
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509

from hpfl.deployment.certificates import CA_CERTIFICATE, issue, load_authority, pem_of, write_whole
from hpfl.deployment.issued import CertificateError
from hpfl.deployment.logs import log
from hpfl.deployment.signing_requests import make_request, read_request, sign_request, take_certificate
from hpfl.deployment.tokens import ENROLMENT, EnrolmentToken, fingerprint, spend_token

MOST_BODY_BYTES = 16_384
_LENGTH_DIGITS = 9
_MOST_CA_BYTES = 65_536
_AT_ONCE, _WITHIN_S, _ALTOGETHER_S = 32, 5.0, 20.0
_FIELDS = {"secret", "request"}


class EnrolmentService(ThreadingHTTPServer):
    """Answers GET /ca with the authorities and POST /enrol with a certificate; a bounded number at a time."""

    daemon_threads = True

    def __init__(self, folder: Path, listen: str) -> None:
        host, _, port = listen.rpartition(":")
        self.folder = folder
        issue(load_authority(folder), folder, ENROLMENT, role="cloud", days=30)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self._tls.load_cert_chain(folder / f"{ENROLMENT}.pem", folder / f"{ENROLMENT}.key")
        self._turns = threading.BoundedSemaphore(_AT_ONCE)
        try:
            super().__init__((host or "127.0.0.1", int(port)), _Answers)
        except (OSError, ValueError, OverflowError) as error:
            raise CertificateError(f"cannot listen at {listen!r}: {error}") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it where there are too many."""
        if self._turns.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection; then there is room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._turns.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS and answer; whoever takes too long, step by step or altogether, is cut off."""
        request.settimeout(_WITHIN_S)
        try:
            with self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as wrapped:
                ending = threading.Timer(_ALTOGETHER_S, _cut, [wrapped])
                ending.start()
                try:
                    wrapped.do_handshake()
                    super().finish_request(wrapped, client_address)
                finally:
                    ending.cancel()
        except OSError as error:
            log("enrolment broken off", level=logging.DEBUG, reason=type(error).__name__)


class _Answers(BaseHTTPRequestHandler):
    """One connection, one answer."""

    timeout = _WITHIN_S
    server: EnrolmentService

    def do_GET(self) -> None:
        """The authorities, for whoever knows one of them by its digest."""
        if self.path != "/ca":
            self._say(HTTPStatus.NOT_FOUND, {"error": "wanted GET /ca or POST /enrol"})
            return
        self._say(HTTPStatus.OK, {"ca": (self.server.folder / CA_CERTIFICATE).read_text(encoding="ascii")})

    def do_POST(self) -> None:
        """A certificate for a request that comes with its token."""
        try:
            certificate = _enrolled(self.server.folder, self._body())
        except CertificateError as error:
            log("enrolment refused", level=logging.WARNING, peer=self.client_address[0], reason=str(error))
            self._say(HTTPStatus.FORBIDDEN, {"error": str(error)})
            return
        ca = (self.server.folder / CA_CERTIFICATE).read_text(encoding="ascii")
        self._say(HTTPStatus.OK, {"certificate": pem_of(certificate).decode(), "ca": ca})

    def log_message(self, *_: Any) -> None:
        """Nothing that a peer has written goes into the log as it is."""

    def _body(self) -> dict[str, str]:
        length = self.headers.get("Content-Length", "")
        known = length.isascii() and length.isdigit() and len(length) < _LENGTH_DIGITS
        if self.path != "/enrol" or not known or int(length) > MOST_BODY_BYTES:
            raise CertificateError(f"wanted POST /enrol with a body of at most {MOST_BODY_BYTES} bytes")
        return checked_fields(self.rfile.read(int(length)), _FIELDS)

    def _say(self, status: HTTPStatus, answer: dict[str, str]) -> None:
        body = json.dumps(answer).encode()
        self.close_connection = True
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def enrol(folder: Path, token: EnrolmentToken, address: str) -> Path:
    """Make a key here, have it certified by the service at an address, and write all files; the certificate's path."""
    ca = _ask(address, _trusting(None), "GET", "/ca", fields={"ca"})["ca"]
    trusted = _known_by(token, ca)
    request = make_request(folder, token.name).read_text(encoding="ascii")
    body = json.dumps({"secret": token.secret, "request": request})
    answer = _ask(address, _trusting(trusted), "POST", "/enrol", fields={"certificate", "ca"}, body=body)
    path = take_certificate(folder, token.name, answer["certificate"].encode())
    write_whole(folder / CA_CERTIFICATE, answer["ca"].encode())
    return path


def checked_fields(body: bytes, wanted: set[str]) -> dict[str, str]:
    """A JSON object with these fields, each a text, and no other."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise CertificateError("what came is not JSON") from None
    if not isinstance(found, dict) or found.keys() != wanted or not all(isinstance(v, str) for v in found.values()):
        raise CertificateError(f"wanted a JSON object with the texts {', '.join(sorted(wanted))} and nothing else")
    return found


def _enrolled(folder: Path, fields: dict[str, str]) -> x509.Certificate:
    request = fields["request"].encode()
    name, _ = read_request(request)  # a request that is not sound costs no token
    token = spend_token(folder, fields["secret"], name)
    _, certificate = sign_request(load_authority(folder), request, role=token.role)
    log("enrolled", name=token.name, role=token.role)
    return certificate


def _known_by(token: EnrolmentToken, ca: str) -> str:
    """Of the authorities that came, the one whose digest the token holds; nobody else is trusted with the secret."""
    try:
        for certificate in x509.load_pem_x509_certificates(ca.encode()):
            if fingerprint(certificate) == token.authority:
                return pem_of(certificate).decode()
    except ValueError:
        pass
    raise CertificateError("whoever answered is not the authority that the token names; nothing was sent")


def _trusting(ca: str | None) -> ssl.SSLContext:
    """Trust one authority; or, to ask for it, nobody: what comes is then compared with the token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=ca)
    return context


class _NamedConnection(HTTPSConnection):
    """A connection to an address whose certificate must bear the service's name, whatever the address is."""

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), timeout=_WITHIN_S)
        self.sock = self._context.wrap_socket(plain, server_hostname=ENROLMENT)  # type: ignore[attr-defined]


def _ask(
    address: str, context: ssl.SSLContext, method: str, path: str, *, fields: set[str], body: str | None = None
) -> dict[str, str]:
    host, _, port = address.rpartition(":")
    try:
        connection = _NamedConnection(host.strip("[]"), int(port), timeout=_WITHIN_S, context=context)
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read(_MOST_CA_BYTES)
        connection.close()
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(f"the enrolment service at {address} is not trusted: {error.verify_message}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise CertificateError(f"the enrolment service at {address} cannot be reached: {error}") from None
    if answer.status != HTTPStatus.OK:
        reason = checked_fields(content, {"error"})["error"][:300]
        raise CertificateError(f"the enrolment service refuses: {reason!a}")
    return checked_fields(content, fields)


def _cut(wrapped: ssl.SSLSocket) -> None:
    with suppress(OSError):
        wrapped.shutdown(socket.SHUT_RDWR)
