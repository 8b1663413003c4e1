"""One worker as the local engine sees it: a process, its two pipes, and the job it is at."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import IO, Any

from hpfl.sweeps.jobs import Job

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PATIENCE_S = 5.0
_LAST_BYTES = 2000


class WorkerProcess:
    """A process that plays one job at a time."""

    def __init__(self, number: int, *, gpu: str | None = None) -> None:
        self.number = number
        self.job: Job | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the process
        self._rest = b""
        given = dict.fromkeys(_ONE_THREAD, "1") | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hpfl.sweeps.job_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | given,
        )
        self._write(sys.path)

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    @property
    def answers(self) -> IO[bytes]:
        """What can be waited for."""
        assert self._process.stdout is not None
        return self._process.stdout

    def play(self, job: Job) -> None:
        """Have it play a job."""
        self.job = job
        self.say(job=job.to_plain())

    def say(self, **what: Any) -> None:
        """Tell it something."""
        self._write(what)

    def _write(self, what: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone, which is heard when it is listened to
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def heard(self) -> list[dict[str, Any]] | None:
        """What it has said since; None: it is gone."""
        came = os.read(self.answers.fileno(), 1 << 16)
        if not came:
            return None
        *lines, self._rest = (self._rest + came).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        """How it ended, and below that what it left on its standard error."""
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_BYTES))
        said = self._errors.read().decode(errors="replace").strip()
        self._close()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return f"{how}\n{said}".strip()

    def end(self, *, at_once: bool) -> None:
        """Let it go; at once, whatever it is at."""
        if at_once:
            self._process.kill()
        else:
            self.say(end=True)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._errors.close()
