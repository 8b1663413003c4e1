"""A process that plays jobs for a local engine: lines of JSON come in and go out; it dies with who started it.

Forked by a nursery, or started as `python -m hpfl.sweeps.job_worker`. The first line is the engine's `sys.path`, so
that parts of one's own are found; each line after it is a job, or asks to stop after the round.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from hpfl.kept_memory import keep_freed_memory
from hpfl.lazy import begin_importing, end_importing
from hpfl.stopping import KINDS

PACE_S = 0.1
"""Rounds are told no more often than this, but for the first and the last."""

Jobs = queue.SimpleQueue[dict[str, Any] | None]


def main() -> None:
    """Play jobs until there are no more."""
    for kind in KINDS:
        signal.signal(kind, signal.SIG_IGN)  # the engine's to answer, which passes it on
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever a part prints is no answer
    sys.path[:] = json.loads(sys.stdin.readline())
    jobs: Jobs = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(jobs, stop), daemon=True).start()
    _play_all(jobs, stop, answers)


def _listen(jobs: Jobs, stop: threading.Event) -> None:
    """Hear what the engine says; where it ends without a word, its process was killed and nothing is to go on."""
    for line in sys.stdin:
        said = json.loads(line)
        if said.get("stop"):
            stop.set()
        elif said.get("end"):
            jobs.put(None)
            return
        else:
            jobs.put(said["job"])
    os._exit(1)


def _play_all(jobs: Jobs, stop: threading.Event, answers: TextIO) -> None:
    begin_importing()
    import torch

    from hpfl.sweeps.jobs import Playing
    from hpfl.sweeps.playing import job_from_plain, played

    end_importing()
    torch.set_num_threads(1)
    keep_freed_memory()

    def say(**what: Any) -> None:
        print(json.dumps(what), file=answers)

    while (plain := jobs.get()) is not None:
        playing = Playing(
            on_round=_paced(say, plain["rounds"]), note=lambda text: say(note=text), should_stop=stop.is_set
        )
        outcome = played(job_from_plain(plain), playing)
        say(ended=outcome.to_plain())


def _paced(say: Callable[..., None], rounds: int) -> Callable[[int], None]:
    last = [0.0]

    def on_round(number: int) -> None:
        if time.monotonic() - last[0] >= PACE_S or number >= rounds:
            last[0] = time.monotonic()
            say(round=number)

    return on_round


if __name__ == "__main__":
    main()
