"""One run of a study: what is run and when to stop, its key, and the small file that holds what came of it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hpfl.config import Config, fingerprint
from hpfl.config.travelling import from_plain, to_plain
from hpfl.experiment import choose_device
from hpfl.reporting.folder import ROUNDS
from hpfl.reporting.summary import environment

Probe = Callable[..., Mapping[str, Any]]
"""Runs a configuration, told `device`, `data_dir` and `hooks`; hands back what the file holds besides the rounds."""

Rounds = Sequence[Mapping[str, Any]]
Enough = Callable[[Rounds], bool]
"""Whether these rounds are all that a part needs."""
_FUNCTIONS = ("probe", "enough")


@dataclass(frozen=True, kw_only=True)
class StudyPart:
    """A configuration with the labels that place it in its study; it ends at a target, a time or its last round.

    `name` is a path below the study's folder, so that parts made elsewhere merge by copying folders together.
    """

    name: str
    labels: Mapping[str, Any]
    config: Config
    stop_at_accuracy: float | None = None
    stop_at_s: float | None = None
    timed: bool = False
    """Whether wall time is what it is run for, so that nothing may run beside it."""
    probe: Probe | None = None
    """What runs it in place of an ordinary run; a function of a module, so that other processes find it."""
    enough: Enough | None = None
    """What else ends it, asked after every evaluation; a function of a module as well."""
    ends: Mapping[str, Any] = field(default_factory=dict)
    """What else ends it, in plain data: see `run_ends`."""
    whole: bool = False
    """Whether everything that a run leaves is kept, in `runs/NAME`; else the file is all."""
    code: str = ""
    """The version of what computes it; results of another are stale. Without one, they count whoever made them."""

    @cached_property
    def key(self) -> str:
        """Everything that decides the part's numbers; a file with another key is not this part's."""
        limits = [self.config.training.rounds, self.stop_at_accuracy, self.stop_at_s]
        told = "".join(f" {function.__name__}" for function in (self.probe, self.enough) if function is not None)
        told += f" {_digest(self.ends)}" if self.ends else ""
        return f"{fingerprint(self.config)} {json.dumps(limits)}{told}"

    def file(self, out: Path) -> Path:
        """Where its results lie."""
        return out / "parts" / f"{self.name}.json"

    def folder(self, out: Path) -> Path:
        """Where all that its run leaves is kept, if it is."""
        return out / "runs" / self.name

    def kept(self, out: Path) -> Path:
        """The folder of what is kept of it while it runs, one within for each configuration, version and machine."""
        return out / "unfinished" / self.name

    def unfinished(self, out: Path, device: str) -> Path:
        """Where it keeps what it has while it runs; what another version or machine began is not gone on with."""
        return self.kept(out) / self.made_by(device)

    def made_by(self, device: str) -> str:
        """A name for configuration, version and machine together."""
        place = json.dumps(environment(device=choose_device(device).type), sort_keys=True) + self.code
        return f"{fingerprint(self.config)}-{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}"

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold of it, which is all: functions by their names."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        named = {name: _path(plain[name]) for name in _FUNCTIONS}
        return plain | named | {"labels": dict(self.labels), "ends": dict(self.ends), "config": to_plain(self.config)}


def part_from_plain(plain: Mapping[str, Any]) -> StudyPart:
    """The part that `to_plain` was of."""
    found = {name: None if plain[name] is None else resolve_name(plain[name]) for name in _FUNCTIONS}
    return StudyPart(**{**plain, **found, "config": from_plain(plain["config"])})


def done(part: StudyPart, out: Path, *, stale: bool = False) -> dict[str, Any] | None:
    """The part's results, if they are there and are this part's; with `stale`, also those of other code."""
    try:
        found: dict[str, Any] = json.loads(part.file(out).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("key") != part.key:
        return None
    if part.whole and not (part.folder(out) / ROUNDS).is_file():
        return None
    return found if stale or not part.code or found.get("code") == part.code else None


def _digest(plain: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=8).hexdigest()


def _path(function: Callable[..., Any] | None) -> str | None:
    return None if function is None else f"{function.__module__}:{function.__qualname__}"
