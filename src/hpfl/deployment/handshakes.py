"""Handshakes that fail at a server never reach it: what gRPC itself says of them is read here, and put into the log.

gRPC writes to descriptor 2 of the process. That becomes a pipe, whose lines are looked at in a thread; what Python
writes to standard error goes where it went before.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from time import monotonic

from hpfl.deployment.logs import log

_SET = {"GRPC_VERBOSITY": "INFO", "GRPC_TRACE": "handshaker"}
_OURS = re.compile(r"[IWE]\d{4} [\d:.]+ +\d+ \S+\] (.*)|=== Source Location|src/core/|UNKNOWN:|\s*$")
_FAILED = re.compile(r"CallNextHandshakerLocked: error=(?!OK)\w+: ?(.*)")
_PEER = re.compile(r"endpoint_peer_address=(?:ipv[46]:)?(\S+?):\d+,")
_LIBRARY = re.compile(r"error:[0-9a-f]+:([^:]*):OPENSSL_internal:(\w+)(?:: (?!Invalid certificate verif)([^:]+))?")
_MOST_LINES, _EVERY_S = 20, 10.0


def note_handshakes() -> None:
    """Call before grpc is imported. Nothing, where the user has settings of gRPC's log, or error output is replaced."""
    if any(os.environ.get(name, "NONE") != "NONE" for name in _SET) or sys.stderr is not sys.__stderr__:
        return
    assert sys.stderr is not None
    os.environ.update(_SET)
    sys.stderr.flush()
    kept = os.dup(2)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a full pipe loses lines; nobody waits for a reader that waits for him
    os.dup2(writing, 2)
    os.close(writing)
    sys.stderr = os.fdopen(kept, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    watch = HandshakeWatch(lambda line: print(line, file=sys.stderr))
    threading.Thread(target=_read, args=(reading, watch), daemon=True, name="handshakes").start()


class HandshakeWatch:
    """Finds failed handshakes in gRPC's lines; what is not gRPC's is passed on."""

    def __init__(self, pass_on: Callable[[str], object]) -> None:
        self._pass_on = pass_on
        self._reason = ""
        self._began_s, self._count = -_EVERY_S, 0

    def take(self, line: str) -> None:
        """One line of error output."""
        failed = _FAILED.search(line)
        if failed:
            self._reason = failed[1]
        peer = _PEER.search(line) if self._reason else None
        if peer:
            self._tell(peer[1], self._reason)
            self._reason = ""
        elif not _OURS.match(line) and not line.startswith(" shutdown="):
            self._pass_on(line)

    def _tell(self, peer: str, reason: str) -> None:
        """Log a failure, but no more than so many in a while, whoever they come from."""
        now_s = monotonic()
        if now_s - self._began_s > _EVERY_S:
            if self._count > _MOST_LINES:
                log("handshakes failed", level=logging.WARNING, not_told=self._count - _MOST_LINES)
            self._began_s, self._count = now_s, 0
        self._count += 1
        if self._count <= _MOST_LINES:
            log("handshake failed", level=logging.WARNING, peer=peer, reason=reason_of(reason))


def reason_of(words: str) -> str:
    """gRPC's and the library's words in one phrase."""
    found = _LIBRARY.search(words)
    if not found:
        return words.removesuffix(": OK")[:200]
    named = found[2].replace("_", " ").lower()
    hint = _HINTS.get(found[2], "")
    return f"{named}{f' ({found[3].strip()})' if found[3] else ''}{f': {hint}' if hint else ''}"


_HINTS = {
    "BAD_SIGNATURE": "its certificate is of another authority",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is expired, revoked, not for its role, or of another authority",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown none",
    "HTTP_REQUEST": "it does not speak TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "NO_SHARED_CIPHER": "it does not speak TLS 1.3",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust our authority",
}
"""What the library's names of faults come to; an expired client certificate is a failed verification."""


def _read(descriptor: int, watch: HandshakeWatch) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            watch.take(line.rstrip("\n"))
