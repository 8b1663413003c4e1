"""One worker as the local engine sees it: a process, its two pipes, and the job it is at."""

import json
import os
import tempfile
from contextlib import suppress
from typing import IO, Any

from hpfl.sweeps.jobs import Job
from hpfl.sweeps.nursery import ONE_THREAD, Nursery, end_of


class WorkerProcess:
    """A process that plays one job at a time."""

    def __init__(self, number: int, nursery: Nursery, *, path: list[str], gpu: str | None = None) -> None:
        self.number, self._nursery = number, nursery
        self.job: Job | None = None
        self.round = 0
        self.is_dismissed = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the process
        self._rest = b""
        given = dict.fromkeys(ONE_THREAD, "1") | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
        its_in, our_out = os.pipe()
        our_in, its_out = os.pipe()
        self._key = nursery.fork((its_in, its_out, self._errors.fileno()), os.environ | given)
        os.close(its_in)
        os.close(its_out)
        self._asking, self.answers = os.fdopen(our_out, "wb"), os.fdopen(our_in, "rb")
        self._write(path)

    def play(self, job: Job) -> None:
        """Have it play a job."""
        self.job, self.round = job, 0
        self.say(job=job.to_plain())

    @property
    def has_something_to_lose(self) -> bool:
        """Whether its job has played a round that counts without those that follow, or all of them."""
        return self.job is not None and self.round >= (1 if self.job.resumes else self.job.rounds)

    def dismiss(self) -> None:
        """End it at once."""
        self.is_dismissed = True
        self._nursery.kill(self._key)

    def say(self, **what: Any) -> None:
        """Tell it something."""
        self._write(what)

    def _write(self, what: Any) -> None:
        with suppress(BrokenPipeError):  # it is gone, which is heard when it is listened to
            self._asking.write(json.dumps(what).encode() + b"\n")
            self._asking.flush()

    def heard(self) -> list[dict[str, Any]] | None:
        """What it has said since; None: it is gone."""
        came = os.read(self.answers.fileno(), 1 << 16)
        if not came:
            return None
        *lines, self._rest = (self._rest + came).split(b"\n")
        return [json.loads(line) for line in lines]

    def last_words(self) -> str:
        """How it ended, and below that what it left on its standard error."""
        code = self._nursery.status(self._key)
        said = end_of(self._errors)
        if code is None:
            how, said = "ended, and so did the one that it came from", said or self._nursery.last_words()
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return f"{how}\n{said}".strip()

    def close(self, *, patience_s: float = 0.0) -> None:
        """Wait for its end, and keep nothing open of it."""
        if patience_s:
            self._nursery.status(self._key, patience_s)
        for file in (self._asking, self.answers, self._errors):
            with suppress(OSError):
                file.close()
