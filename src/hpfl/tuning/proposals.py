"""What has been proposed for each trial, and after which results: a file of a search, in JSON.

A proposal follows from what was known, so that the file could be made again; it keeps what another version of the
sampler would propose otherwise. One that was made after other results is not gone by.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpfl import atomic
from hpfl.reporting.store import writing
from hpfl.tuning.asking import Known

PROPOSALS = "proposals.json"


class Proposals:
    """The proposals of a search, by case and trial."""

    def __init__(self, out: Path) -> None:
        self._path = out / PROPOSALS
        self._kept: dict[str, dict[str, dict[str, Any]]] = _read(self._path)
        self._changed = False

    def of(self, case: str, number: int, known: Sequence[Known], make: Callable[[], Mapping[str, Any]]) -> Any:
        """The values of a trial: as they were proposed after these results, or proposed now."""
        after, kept = _digest(known), self._kept.setdefault(case, {})
        if kept.get(str(number), {}).get("after") != after:
            kept[str(number)] = {"after": after, "params": dict(make())}
            self._changed = True
        return kept[str(number)]["params"]

    def save(self) -> None:
        """Write what is new."""
        if self._changed:
            with writing(self._path):
                atomic.write_text(self._path, json.dumps(self._kept, indent=1, sort_keys=True) + "\n")
            self._changed = False


def _read(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """What is there; of a file that is none of ours, nothing: all is proposed again, and comes out the same."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    fits = isinstance(found, dict) and all(
        isinstance(trials, dict)
        and all(isinstance(each, dict) and {"after", "params"} <= set(each) for each in trials.values())
        for trials in found.values()
    )
    return found if fits else {}


def _digest(known: Sequence[Known]) -> str:
    plain = [[dict(each.params), each.score, sorted(each.stopped.items()), each.waiting, each.failed] for each in known]
    return hashlib.blake2b(json.dumps(plain).encode(), digest_size=8).hexdigest()
