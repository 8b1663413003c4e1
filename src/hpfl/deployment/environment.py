"""What gRPC reads from the environment before it is first imported: TLS 1.3 alone, and no chatter on standard error."""

import os

_NEVER_SHARED = "ECDHE-RSA-AES256-GCM-SHA384"
"""Every certificate here is ECDSA, so a TLS 1.2 handshake finds no cipher it could use; TLS 1.3 has its own list."""


def prepare() -> None:
    """Call before grpc is imported; what the user has set is left alone (identities are checked again later)."""
    os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", _NEVER_SHARED)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
