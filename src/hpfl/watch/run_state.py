"""Whether a run goes on: told by its summary, by the lock its writer holds, or by how lately its file has grown."""

import time
from pathlib import Path
from typing import Literal

RunState = Literal["running", "done", "stopped", "waiting"]
_LOCKS = Path("/proc/locks")
_LATELY_S = 20.0


def state_of(path: Path, *, rounds: int, total: int, completed: bool) -> RunState:
    """The state of the run whose records are at `path`, of which `rounds` of `total` are there.

    Its lock is looked up, never tried: whoever tries one holds it for a moment, and a run that begins then is refused.
    """
    if completed or rounds >= total > 0:
        return "done"
    if is_written(path):
        return "running" if rounds else "waiting"
    return "stopped" if rounds else "waiting"


def is_written(path: Path) -> bool:
    """Whether some process has the file for writing, as far as can be seen from here."""
    try:
        status = path.stat()
    except OSError:
        return False
    return _is_locked(status.st_ino) or time.time() - status.st_mtime < _LATELY_S


def _is_locked(inode: int) -> bool:
    """Whether the system lists a lock of a whole file with this inode; False where it does not list any."""
    try:
        lines = _LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    return any("FLOCK" in line and f":{inode} " in line for line in lines)
