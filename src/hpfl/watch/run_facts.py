"""What a run is, as its configuration and its summary say: sizes, planner, data set, seed, target."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpfl.reporting.folder import CONFIG, RUN_ID, SUMMARY
from hpfl.watch.shown import number, parsed, text, whole

_LARGEST_BYTES = 1 << 22
_DEPLOYED = "run"
_SEED = re.compile(r"seed-\d+")
_BESIDES = {("training", "seed"), ("network", "write_trace")}
"""Settings in which the runs of a group may differ."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """A run's configuration, section by section and unchecked, and its summary where it has one."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> "RunFacts":
        """What lies in a folder now; a file that cannot be read says nothing."""
        return cls(folder=folder, config=_config(folder / CONFIG), summary=parsed(_read(folder / SUMMARY)) or {})

    def setting(self, section: str, key: str) -> Any:
        """A setting, or None."""
        inside = self.config.get(section)
        return inside.get(key) if isinstance(inside, dict) else None

    @property
    def is_deployed(self) -> bool:
        """Whether real nodes ran it."""
        return (self.folder / RUN_ID).exists() or bool(self.summary.get("deployed"))

    @property
    def name(self) -> str:
        """The folder's name; results of a local deployment lie in `run` in it, a sweep's in its cell's."""
        folder = self.folder.resolve()
        if _SEED.fullmatch(folder.name):
            return text(f"{folder.parent.name} {folder.name}")
        return text(folder.parent.name if folder.name == _DEPLOYED and self.is_deployed else folder.name)

    @property
    def num_edges(self) -> int:
        """K."""
        return whole(self.setting("network", "edges"), most=10**6)

    @property
    def num_ues(self) -> int:
        """N, where the configuration or the summary says it."""
        if "num_ues" in self.summary:
            return whole(self.summary["num_ues"])
        per_edge = self.setting("network", "ues_per_edge")
        if isinstance(per_edge, list):
            return sum(whole(one) for one in per_edge)
        return whole(per_edge) * self.num_edges

    @property
    def total_rounds(self) -> int:
        """T."""
        return whole(self.setting("training", "rounds"))

    @property
    def evaluated_every(self) -> int:
        """Rounds from one evaluation to the next."""
        return whole(self.setting("evaluation", "every"), least=1)

    @property
    def group(self) -> str:
        """The same for runs that differ in their seed alone."""
        kept = {
            section: {key: value for key, value in inside.items() if (section, key) not in _BESIDES}
            for section, inside in self.config.items()
            if isinstance(inside, dict)
        }
        said = json.dumps([self.is_deployed, kept or str(self.folder)], sort_keys=True, default=str)
        return hashlib.blake2b(said.encode(), digest_size=6).hexdigest()

    def told(self) -> dict[str, Any]:
        """For the list of runs."""
        return {
            "name": self.name,
            "title": self._title,
            "kind": "deployed" if self.is_deployed else "simulated",
            "group": self.group,
            "seed": whole(self.setting("training", "seed"), most=2**53),
            "num_edges": self.num_edges,
            "num_ues": self.num_ues,
            "total_rounds": self.total_rounds,
            "planner": text(self.setting("planning", "planner") or ""),
            "dataset": text(self.setting("data", "dataset") or ""),
            "bandwidth_hz": number(self.setting("network", "bandwidth_hz")),
            "target_accuracy": number(self.setting("evaluation", "target_accuracy")),
            "spectrum": text(self.setting("network", "spectrum") or "fixed"),
            "downlink": text(self.setting("network", "downlink") or ""),
            "evaluated_every": self.evaluated_every,
        }

    @property
    def _title(self) -> str:
        parts = (("planning", "planner"), ("data", "dataset"), ("learning", "model"))
        said = [text(self.setting(*where)) for where in parts if self.setting(*where)]
        return f"{self.name}: {', '.join(said)}" if said else self.name


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_BYTES)
    except OSError:
        return b""
