"""Which runs are watched: folders of results as named, and every run within a folder of runs, also those to come."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpfl.reporting.folder import CONFIG, ROUNDS
from hpfl.watch.shown import WatchError
from hpfl.watch.watched_cloud import WatchedCloud
from hpfl.watch.watched_run import Watched, WatchedRun

MOST_RUNS = 500
_DEEPEST = 3
_ADDRESS = re.compile(r"https?://\S+|(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_MOST_ENTRIES = 20_000


class Sources:
    """The runs under the paths and at the addresses somebody named, each with an id that stays: `r0`, `r1`, ..."""

    def __init__(self, paths: Sequence[Path], clouds: Sequence[str] = ()) -> None:
        self._paths = [path.resolve() for path in paths]
        self.runs: dict[str, Watched] = {}
        self._known: set[Path] = set()
        for address in clouds:
            name = f"r{len(self.runs)}"
            self.runs[name] = WatchedCloud(address, name)

    @classmethod
    def of(cls, named: Sequence[str | Path], *, to_come: bool = False) -> "Sources":
        """What is there; a path without a run is refused, unless one is `to_come`."""
        clouds = [str(one) for one in named if is_address(str(one))]
        paths = [Path(one) for one in named if not is_address(str(one))]
        for path in paths:
            if not path.is_dir() and not to_come:
                raise WatchError(
                    f"{path} is not a folder; wanted a folder of results, one that has some in it, or a cloud's address"
                )
        made = cls(paths, clouds)
        made.look()
        if not to_come:
            made.refuse_empty()
        return made

    def refuse_empty(self) -> None:
        """Raise where a path has no run."""
        for path in self._paths:
            if not any(folder == path or path in folder.parents for folder in self._known):
                raise WatchError(f"{path} has no run in it: no folder with {ROUNDS} was found there")

    def look(self) -> list[Watched]:
        """Look again for runs; those that are new."""
        new = [folder for path in self._paths for folder in _runs_under(path) if folder not in self._known]
        found: list[Watched] = []
        for folder in dict.fromkeys(new):
            if len(self.runs) >= MOST_RUNS:
                break
            name = f"r{len(self.runs)}"
            self._known.add(folder)
            self.runs[name] = WatchedRun(folder, name)
            found.append(self.runs[name])
        return found


def is_address(named: str) -> bool:
    """Whether somebody named a cloud's address, `http://host:port` or `host:port`, and no folder that is there."""
    return bool(_ADDRESS.fullmatch(named)) and not Path(named).exists()


def _runs_under(path: Path) -> Iterator[Path]:
    """A folder of results itself, that of a local deployment, or all that lie in a folder, in the order of names."""
    if _has_results(path):
        yield path
        return
    left = [_MOST_ENTRIES]
    yield from _within(path, _DEEPEST, left)


def _within(path: Path, depth: int, left: list[int]) -> Iterator[Path]:
    try:
        with os.scandir(path) as listed:
            entries = sorted(entry.name for entry in listed if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in entries:
        left[0] -= 1
        if left[0] < 0:
            return
        inside = path / name
        if _has_results(inside):
            yield inside
        elif depth > 1 and not name.startswith("."):
            yield from _within(inside, depth - 1, left)


def _has_results(folder: Path) -> bool:
    return (folder / ROUNDS).is_file() and (folder / CONFIG).is_file()
