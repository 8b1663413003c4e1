"""What a node takes from its environment: gRPC's settings before it is first imported, and whose death ends it."""

import ctypes
import os
import signal

SUPERVISOR = "HPFL_SUPERVISOR"
"""Names the process whose death a node of a local deployment does not outlive."""

_PR_SET_PDEATHSIG = 1  # sys/prctl.h

_NEVER_SHARED = "ECDHE-RSA-AES256-GCM-SHA384"
"""Every certificate here is ECDSA, so a TLS 1.2 handshake finds no cipher it could use; TLS 1.3 has its own list."""


def prepare() -> None:
    """Call before grpc is imported; what the user has set is left alone (identities are checked again later)."""
    os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", _NEVER_SHARED)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def end_with_supervisor() -> None:
    """Where a supervisor has started this process, end when it ends, however it ends (Linux; elsewhere nothing)."""
    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is None:
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != int(supervisor):  # it died before we asked
        os.kill(os.getpid(), signal.SIGTERM)
