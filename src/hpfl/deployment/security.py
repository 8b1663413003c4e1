"""Who may speak: credentials for both ends of a connection, and the name a peer has proved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.settings import LimitSettings, SettingsError, TlsSettings
from hpfl.deployment.wire import MAX_FRAME_BYTES

_TLS = b"TLSv1.3"
_READ_BUFFER_BYTES = 8192
"""What a connection keeps ready between messages; gRPC would keep as much as the largest burst it has seen."""
_TLS_RECORD_BYTES = 2048
"""What is encrypted at once; each connection keeps a buffer of that size ready, and a longer one is no faster."""

GrpcOptions = list[tuple[str, Any]]


@dataclass(frozen=True)
class TlsFiles:
    """What the files of a node hold: trusted authorities, its certificate and its key, as PEM."""

    ca: bytes
    certificate: bytes
    key: bytes


def server_credentials(current: Callable[[], TlsFiles]) -> Any:
    """Show our certificate and demand one of the same authority from everybody; those that are current at the time."""
    shown = [current()]

    def anew() -> Any:
        """What the next handshake uses; None where nothing has changed. gRPC calls it from its own threads."""
        files = current()
        if files == shown[0]:
            return None
        shown[0] = files
        return _server_configuration(files)

    return grpc.dynamic_ssl_server_credentials(
        _server_configuration(shown[0]), anew, require_client_authentication=True
    )


def _server_configuration(files: TlsFiles) -> Any:
    return grpc.ssl_server_certificate_configuration([(files.key, files.certificate)], root_certificates=files.ca)


def channel_credentials(files: TlsFiles) -> Any:
    """Trust the deployment's own authorities and nobody else's; show our certificate."""
    return grpc.ssl_channel_credentials(
        root_certificates=files.ca, private_key=files.key, certificate_chain=files.certificate
    )


def proven_name(auth: Mapping[str, Sequence[bytes]]) -> str:
    """The one name in the peer's certificate, over TLS 1.3 with encryption; anything else is refused."""
    version = next(iter(auth.get("ssl_tls_version", ())), b"none")
    if version != _TLS:
        raise RefusedError("identity", f"a connection with {version.decode()} came, wanted TLS 1.3")
    names = {name.decode("utf-8", "replace") for name in auth.get("x509_subject_alternative_name", ())}
    if len(names) != 1:
        raise RefusedError("identity", f"a certificate with {len(names)} names came, wanted one")
    return names.pop()


def server_options(limits: LimitSettings, *, connections: int) -> GrpcOptions:
    """Sizes, keepalive and time-outs of a server; nothing a peer does may grow without bound."""
    return [
        ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
        ("grpc.max_send_message_length", MAX_FRAME_BYTES),
        ("grpc.max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 4),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", int(1000 * limits.handshake_s)),
        ("grpc.max_connection_idle_ms", int(1000 * limits.handshake_s)),
        ("grpc.keepalive_time_ms", int(1000 * limits.keepalive_s)),
        ("grpc.keepalive_timeout_ms", int(1000 * limits.keepalive_s)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", int(500 * limits.keepalive_s)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.tsi.max_frame_size", _TLS_RECORD_BYTES),
        ("grpc.experimental.tcp_max_read_buffer_size", _READ_BUFFER_BYTES),
    ]


def client_options(limits: LimitSettings, *, server: str) -> GrpcOptions:
    """The same for a client; `server` is the only name it will talk to."""
    return [
        ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
        ("grpc.max_send_message_length", MAX_FRAME_BYTES),
        ("grpc.ssl_target_name_override", server),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.keepalive_time_ms", int(1000 * limits.keepalive_s)),
        ("grpc.keepalive_timeout_ms", int(1000 * limits.keepalive_s)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]


def read_files(tls: TlsSettings) -> TlsFiles:
    """What the files hold now; a key that others can read is refused."""
    ca, certificate, key = (_read(path) for path in (tls.ca, tls.certificate, tls.private_key))
    if Path(tls.private_key).stat().st_mode & 0o077:
        raise SettingsError(
            f"{tls.private_key} can be read by others than its owner; run `chmod 600 {tls.private_key}`"
        )
    return TlsFiles(ca, certificate, key)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); `hpfl certs issue` makes it") from None
