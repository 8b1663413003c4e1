"""Where workers come from: one process imports everything once, while others are still at other things, and forks."""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import IO, Any

from hpfl.stopping import KINDS

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PATIENCE_S = 5.0
_LAST_BYTES = 2000
_numbers = count()
_early: list["Nursery"] = []


class Nursery:
    """A process that forks workers (`nursery_process.py`), with one thread each."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the process
        self._socket, theirs = socket.socketpair()
        self._rest, self._ended, self._asked = b"", dict[int, int](), False
        with theirs, _held_back(KINDS):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hpfl.sweeps.nursery_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
            )

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it can fork."""
        return self._process.poll() is None

    def fork(self, files: Sequence[int], environment: Mapping[str, str]) -> int:
        """Have a worker with these as its standard input, output and errors; the number it is asked for by."""
        number, self._asked = next(_numbers), True
        line = json.dumps({"worker": number, "environment": dict(environment)}).encode() + b"\n"
        with contextlib.suppress(OSError):  # it is gone; so is, to who listens, the worker that it was to fork
            sent = socket.send_fds(self._socket, [line], files)
            self._socket.sendall(line[sent:])
        return number

    def kill(self, number: int) -> None:
        """End a worker at once, if it has not ended."""
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps({"kill": number}).encode() + b"\n")

    def status(self, number: int, patience_s: float = _PATIENCE_S) -> int | None:
        """With what a worker has ended, negative for a signal, once it has; None: nobody knows so far."""
        until = time.monotonic() + patience_s
        while number not in self._ended and (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                came = self._socket.recv(1 << 16)
            except OSError:
                break
            finally:
                self._socket.settimeout(None)
            if not came:
                break
            *lines, self._rest = (self._rest + came).split(b"\n")
            for each in map(json.loads, lines):
                self._ended[each["ended"]] = each["status"]
        return self._ended.get(number)

    def last_words(self) -> str:
        """What it left on its standard error."""
        return end_of(self._errors)

    def close(self) -> None:
        """End it, and with it every worker that is left."""
        self._socket.close()
        if not self._asked:
            self._process.kill()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def end_of(errors: IO[bytes]) -> str:
    """The last that a process has left in a file."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_BYTES))
    return errors.read().decode(errors="replace").strip()


def begin_early() -> None:
    """Have one import while this process does; the next engine takes it. One that nobody takes ends with us."""
    if not _early:
        _early.append(Nursery())
        atexit.register(_close_untaken)


def any_nursery() -> Nursery:
    """The one that was begun early, or a new one."""
    return _early.pop() if _early else Nursery()


def _close_untaken() -> None:
    while _early:
        _early.pop().close()


@contextlib.contextmanager
def _held_back(kinds: Sequence[signal.Signals]) -> Iterator[None]:
    """Signals wait meanwhile, here and in a process that is started, until that says what they are to it."""
    before: Any = signal.pthread_sigmask(signal.SIG_BLOCK, kinds)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
