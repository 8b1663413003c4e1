"""A process that has imported what workers need and forks one whenever it is asked to; it dies with who started it.

Started as `python -m hpfl.sweeps.nursery_process FD`, a socket: lines of JSON come in and go out (see `nursery.py`).
Where a fork would not be safe, beside other threads or with a GPU in use, a worker is a Python of its own.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from hpfl.lazy import begin_importing, end_importing
from hpfl.stopping import KINDS
from hpfl.sweeps import job_worker

NEEDED = ("torch", "hpfl.sweeps.playing", "hpfl.sweeps.part_run")
"""What every worker needs."""
WELCOME = (
    "scipy.special",
    "sympy",
    "torch.fx.experimental.symbolic_shapes",
    "torch.distributed.tensor",
    "torch._dynamo",
)
"""What most runs import when they begin, in small steps: imported while nobody waits, not where it may ask for GPUs."""
_MOST = 1 << 16


class _Nursery:
    """Who was forked, and what the engine has asked for that is not done yet."""

    def __init__(self, engine: socket.socket) -> None:
        self._engine, self._rest = engine, b""
        self._files: deque[int] = deque()
        self._workers: dict[int, int] = {}  # numbers of the engine's by processes
        self._ends, wake = socket.socketpair()
        self._ends.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake.fileno())

    def serve(self) -> None:
        """Fork and tell of ends until the engine is gone."""
        welcome = deque(() if _may_ask_for_gpus() else WELCOME)
        while True:
            ready, _, _ = select.select([self._engine, self._ends], [], [], 0 if welcome else None)
            if self._engine in ready:
                if not self._hear():
                    return
                welcome.clear()  # from now on workers need the processor
            if self._ends in ready:
                self._bury()
            if welcome and not ready:
                with contextlib.suppress(ImportError):
                    _imported(welcome.popleft())

    def _hear(self) -> bool:
        came, files, _, _ = socket.recv_fds(self._engine, _MOST, 64)
        self._files.extend(files)
        if not came:
            return False
        *lines, self._rest = (self._rest + came).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "kill" in asked:
                self._kill(asked["kill"])
            else:
                self._fork(asked["worker"], asked["environment"])
        return True

    def _fork(self, number: int, environment: dict[str, str]) -> None:
        files = [self._files.popleft() for _ in range(3)]
        pid = os.fork()
        if not pid:
            self._become_worker(files, environment)
        for file in files:
            os.close(file)
        self._workers[pid] = number

    def _become_worker(self, files: list[int], environment: dict[str, str]) -> NoReturn:
        """Play jobs with these files as standard input, output and errors; never comes back."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for place, file in enumerate(files):
                os.dup2(file, place)
            for file in (*files, *self._files, *(own.detach() for own in (self._engine, self._ends, self._wake))):
                os.close(file)
            os.environ.clear()
            os.environ.update(environment)
            if _may_go_on_as_forked():
                job_worker.main()
                atexit._run_exitfuncs()
            else:
                os.execv(sys.executable, [sys.executable, "-m", job_worker.__name__])
            status = 0
        except BaseException:  # noqa: BLE001  whatever it is, it is not the nursery's
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _kill(self, number: int) -> None:
        for pid, own in self._workers.items():
            if own == number:
                os.kill(pid, signal.SIGKILL)

    def _bury(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._ends.recv(_MOST)
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._say(ended=self._workers.pop(pid), status=os.waitstatus_to_exitcode(status))

    def _say(self, **what: Any) -> None:
        with contextlib.suppress(OSError):  # the engine is gone, which is heard when it is listened to
            self._engine.sendall(json.dumps(what).encode() + b"\n")

    def end(self) -> None:
        """Nothing goes on without the engine."""
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)


def _imported(name: str) -> None:
    begin_importing()
    import_module(name)
    end_importing()


def _may_ask_for_gpus() -> bool:
    """Whether this PyTorch knows GPUs, so that a module may look for them when it is imported."""
    import torch

    return torch.version.cuda is not None or torch.version.hip is not None


def _may_go_on_as_forked() -> bool:
    """Whether a fork of this process is as good as a new one: no other thread was there, and no GPU's driver is open.

    Called in the fork, which has the files of its parent and no thread but one; the parent's are counted.
    """
    if sys.platform != "linux":
        return False
    threads = len(list(Path(f"/proc/{os.getppid()}/task").iterdir()))
    files = [_where(file) for file in Path("/proc/self/fd").iterdir()]
    return threads == 1 and not any(place.startswith("/dev/nvidia") for place in files)


def _where(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # closed since
        return ""


def main() -> None:
    """Import, then fork on demand."""
    for kind in KINDS:  # sent to a whole group of processes: the engine's to answer, which passes them on
        signal.signal(kind, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KINDS)
    engine = socket.socket(fileno=int(sys.argv[1]))
    engine.set_inheritable(False)
    for name in NEEDED:
        _imported(name)
    nursery = _Nursery(engine)
    try:
        nursery.serve()
    finally:
        nursery.end()
        os._exit(0)


if __name__ == "__main__":
    main()
