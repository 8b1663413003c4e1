"""What a process on a node takes over of the driver: where modules and files are found, and how many threads it has."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from hpfl.kept_memory import keep_freed_memory


@dataclass(frozen=True)
class Surroundings:
    """The driver's `sys.path` and folder, and threads."""

    path: tuple[str, ...]
    folder: str
    threads: int

    @staticmethod
    def of_driver(threads: int) -> "Surroundings":
        """Those of this process, with other threads."""
        return Surroundings(tuple(sys.path), str(Path.cwd()), threads)

    def take(self) -> None:
        """Have them in this process; a folder that is not on this node is done without."""
        sys.path[:] = [*self.path, *(own for own in sys.path if own not in self.path)]
        with suppress(OSError):
            os.chdir(self.folder)
        torch.set_num_threads(self.threads)
        keep_freed_memory()
