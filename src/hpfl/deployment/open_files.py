"""How many files and connections this process may hold open, and how many are left for children."""

import logging
import resource
from pathlib import Path

from hpfl.deployment.logs import log
from hpfl.deployment.settings import LimitSettings

KEPT_FILES = 64
"""Left to everything else: checkpoints, logs, the way up, and whatever gRPC opens."""


def connections_for(num_children: int, limits: LimitSettings) -> int:
    """Connections a server may hold; fewer than `limits.connections` where no more files can be open.

    At that number newcomers are turned away at once. Without it gRPC would try to take them in, again and again.
    """
    allowed = _raised()
    most = max(min(limits.connections, allowed - _open_now() - KEPT_FILES), 1)
    if num_children > most:
        log(
            "fewer connections than children",
            level=logging.WARNING,
            children=num_children,
            connections=most,
            because=f"limits.connections is {limits.connections}, and {allowed} files may be open (ulimit -n)",
        )
    return most


def _raised() -> int:
    """Ask for as many open files as this user may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def _open_now() -> int:
    try:
        return len(list(Path("/proc/self/fd").iterdir()))
    except OSError:
        return 0
