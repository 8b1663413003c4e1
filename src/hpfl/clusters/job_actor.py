"""A process on some node that plays one job at a time, and says how far it is when it is asked."""

import threading
import time
from typing import Any

from hpfl.clusters.surroundings import Surroundings
from hpfl.sweeps.jobs import Playing
from hpfl.sweeps.playing import job_from_plain, played


class JobActor:
    """Plays jobs in a thread of its own; what it has to say is fetched, so that the driver is never waited for."""

    def __init__(self, around: Surroundings) -> None:
        around.take()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._said: list[dict[str, Any]] = []

    def play(self, plain: dict[str, Any]) -> None:
        """Begin a job."""
        threading.Thread(target=self._play, args=(plain,), daemon=True).start()

    def stop(self) -> None:
        """End the job after its round."""
        self._stop.set()

    def heard(self, patience_s: float) -> list[dict[str, Any]]:
        """What it has said since it was asked last; waits a little for the first word."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end and not self._said:
            time.sleep(0.01)
        with self._lock:
            said, self._said = self._said, []
        return said

    def _play(self, plain: dict[str, Any]) -> None:
        playing = Playing(on_round=self._round, note=lambda text: self._say(note=text), should_stop=self._stop.is_set)
        self._say(ended=played(job_from_plain(plain), playing).to_plain())

    def _round(self, number: int) -> None:
        """Of rounds, the last is enough."""
        with self._lock:
            if self._said and "round" in self._said[-1]:
                self._said.pop()
            self._said.append({"round": number})

    def _say(self, **what: Any) -> None:
        with self._lock:
            self._said.append(what)
