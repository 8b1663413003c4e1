"""One run of a study: what is run and when to stop, and the small file that holds what came of it."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.config import Config, fingerprint, resolve
from hpfl.experiment import Hooks, choose_device, run
from hpfl.learning import NonFiniteUpdateError
from hpfl.reporting import atomic
from hpfl.reporting.summary import environment, time_to_target
from hpfl.training.cloud import DivergedError
from hpfl.training.record import RoundRecord

COLUMNS = (
    "time_s",
    "latency_s",
    "importance",
    "personalised_accuracy",
    "personalised_accuracy_p10",
    "global_accuracy",
    "meta_loss",
    "loss",
    "num_scheduled",
    "energy_j",
    "uplink_bits",
    "planning_s",
    "max_staleness",
    "step_scale",
    "noise_scale",
)
"""What is kept of every round."""
PER_UE = ("samples", "personalised_accuracy", "global_accuracy")
"""What is kept of every UE, at the end."""

Probe = Callable[..., Mapping[str, Any]]
"""Runs a configuration, told `device`, `data_dir` and `hooks`; hands back what the file holds besides the rounds."""


def per_ue(config: Config, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """The ordinary probe: a run, and the figures of every UE at its end."""
    result = run(config, device=device, data_dir=data_dir, hooks=hooks)
    return {"ues": {name: _plain(result.ues[name]) for name in PER_UE}}


@dataclass(frozen=True, kw_only=True)
class Part:
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
    probe: Probe = per_ue
    """What runs it; a function of a module, so that other processes find it."""

    @property
    def key(self) -> str:
        """Everything that decides the part's numbers; a file with another key is not this part's."""
        limits = [self.config.training.rounds, self.stop_at_accuracy, self.stop_at_s]
        probed = "" if self.probe is per_ue else f" {self.probe.__name__}"
        return f"{fingerprint(resolve(self.config))} {json.dumps(limits)}{probed}"

    def file(self, out: Path) -> Path:
        """Where its results lie."""
        return out / "parts" / f"{self.name}.json"


def done(part: Part, out: Path) -> dict[str, Any] | None:
    """The part's results, if they are there and are this part's."""
    try:
        found: dict[str, Any] = json.loads(part.file(out).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("key") == part.key else None


def run_part(part: Part, out: Path, *, device: str, data_dir: Path | None, hooks: Hooks | None = None) -> None:
    """Run it and leave its file, at once and whole; a run that diverges is a result too."""
    limit, hooks = _Limit(part), hooks or Hooks()

    def watch(record: RoundRecord) -> None:
        limit.see(record)
        hooks.on_round(record)

    diverged, seen, began = None, dict[str, Any](), time.perf_counter()
    watching = Hooks(on_round=watch, should_stop=lambda: limit.reached or hooks.should_stop(), download=hooks.download)
    try:
        seen |= part.probe(part.config, device=device, data_dir=data_dir, hooks=watching)
    except (DivergedError, NonFiniteUpdateError) as error:
        diverged = str(error)
    if hooks.should_stop():
        return
    content = {
        "key": part.key,
        "name": part.name,
        "labels": dict(part.labels),
        "diverged": diverged,
        "environment": environment(device=choose_device(device).type),
        "wall_s": time.perf_counter() - began,
        "rounds": {name: [row[name] for row in limit.rows] for name in COLUMNS},
        "ues": None,
        **seen,
    }
    part.file(out).parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(part.file(out), json.dumps(content, allow_nan=False))


def _plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers as JSON has them; five digits are more than an accuracy has."""
    return [round(float(value), 5) if np.isfinite(value) else None for value in values]


class _Limit:
    """Watches a run for the moment at which its part has all it needs."""

    def __init__(self, part: Part) -> None:
        self.part, self.rows, self.reached = part, list[dict[str, Any]](), False

    def see(self, record: RoundRecord) -> None:
        self.rows.append(record.to_json())
        late = self.part.stop_at_s is not None and record.time_s >= self.part.stop_at_s
        self.reached = late or self._there(self.rows[-1])

    def _there(self, row: Mapping[str, Any]) -> bool:
        target, accuracy = self.part.stop_at_accuracy, row["personalised_accuracy"]
        if target is None or accuracy is None or accuracy < target:
            return False
        return time_to_target(self.rows, target) is not None
