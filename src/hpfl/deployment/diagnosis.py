"""Why a connection to the parent cannot be made: a handshake by hand that says whose certificate is at fault."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography import x509

from hpfl.deployment.settings import TlsSettings

_WITHIN_S = 2.0
_FOREIGN_CODES = frozenset({7, 18, 19, 20, 21})  # of OpenSSL: no issuer is trusted, or none has signed it
_FOREIGN = "it is not of an authority that is trusted here"


def handshake_fault(tls: TlsSettings, address: str, parent: str) -> str:
    """Which check of a certificate fails between this node and its parent, as a sentence; empty where none does."""
    host, _, port = address.rpartition(":")
    try:
        context = client_context(tls)
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname=parent) as wrapped,
        ):
            shown = wrapped.getpeercert() or {}
            return "" if _is_welcome(wrapped) else _turned_down(tls, parent, shown)
    except ssl.SSLCertVerificationError as error:
        why = _FOREIGN if error.verify_code in _FOREIGN_CODES else error.verify_message
        return f"the certificate of {parent} at {address} is refused here: {why}"
    except (OSError, ValueError):
        return ""  # nobody is there, or a file is not: what gRPC says of it stands


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """What a node shows and whom it trusts, for a handshake by hand."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(tls.ca)
    context.load_cert_chain(tls.certificate, tls.private_key)
    context.set_alpn_protocols(["h2"])
    return context


def _is_welcome(wrapped: ssl.SSLSocket) -> bool:
    """Whether the parent speaks: with TLS 1.3 it judges only after this end believes that all is well."""
    try:
        return bool(wrapped.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def _turned_down(tls: TlsSettings, parent: str, shown: Mapping[str, Any]) -> str:
    """gRPC ends a connection without a word where it refuses a certificate: say what there may be against it."""
    own = x509.load_pem_x509_certificate(Path(tls.certificate).read_bytes())
    issuer = own.issuer.rfc4514_string()
    theirs = ",".join(f"CN={value}" for part in shown.get("issuer", ()) for key, value in part if key == "commonName")
    until = f"{own.not_valid_after_utc:%d %B %Y, %H:%M} UTC"
    which = "the same authority" if issuer == theirs else f"another authority, {theirs}"
    return (
        f"{parent} ends the connection once it sees this node's certificate, which is of {issuer} and valid until "
        f"{until}; its own is of {which}: look at the authorities it trusts and at its clock"
    )
