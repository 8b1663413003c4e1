"""Why a connection to the parent cannot be made: a handshake by hand that says whose certificate is at fault."""

import socket
import ssl

from hpfl.deployment.settings import TlsSettings

_WITHIN_S = 2.0
_FOREIGN_CODES = frozenset({7, 18, 19, 20, 21})  # of OpenSSL: no issuer is trusted, or none has signed it
_FOREIGN = "it is not of an authority that is trusted here"
_ALERTS = {
    "CERTIFICATE_EXPIRED": "it has expired",
    "UNKNOWN_CA": "it is of an authority that is not trusted there",
    "CERTIFICATE_REVOKED": "it has been revoked",
    "BAD_CERTIFICATE": "it is not sound",
    "CERTIFICATE_UNKNOWN": "it is not accepted there",
    "CERTIFICATE_REQUIRED": "there is none",
}


def handshake_fault(tls: TlsSettings, address: str, parent: str) -> str:
    """Which check of a certificate fails between this node and its parent, as a sentence; empty where none does."""
    host, _, port = address.rpartition(":")
    try:
        context = client_context(tls)
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname=parent) as wrapped,
        ):
            wrapped.recv(1)  # with TLS 1.3 the parent judges only after this end believes that all is well
    except ssl.SSLCertVerificationError as error:
        why = _FOREIGN if error.verify_code in _FOREIGN_CODES else error.verify_message
        return f"the certificate of {parent} at {address} is refused here: {why}"
    except ssl.SSLError as error:
        return _told(error.reason or "", parent)
    except (OSError, ValueError):
        return ""  # nobody is there, or a file is: what gRPC says of it stands
    return ""


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """What a node shows and whom it trusts, for a handshake by hand."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(tls.ca)
    context.load_cert_chain(tls.certificate, tls.private_key)
    context.set_alpn_protocols(["h2"])
    return context


def _told(alert: str, parent: str) -> str:
    known = next((words for name, words in _ALERTS.items() if alert.endswith(name)), "")
    return f"{parent} refuses this node's certificate: {known}" if known else ""
