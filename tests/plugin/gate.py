"""A watcher behind which a cloud waits after each of its first rounds, until somebody opens: the network lives on."""

import time
from pathlib import Path

from hpfl import Watcher

SHUT = 3
"""Rounds after which it is shut."""


class Gate(Watcher):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def round(self, state, record) -> None:
        if record.round > SHUT:
            return
        (self.folder / f"waits-{record.round}").touch()
        while not (self.folder / f"open-{record.round}").exists():
            time.sleep(0.02)
