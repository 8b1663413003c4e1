"""One run of a study: what is run and when to stop, and the small file that holds what came of it.

While it runs it keeps records and checkpoints in a folder of its own, so that an interrupted one goes on where it was.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl import atomic
from hpfl.config import Config, fingerprint
from hpfl.experiment import Hooks, choose_device, run_experiment
from hpfl.learning import NonFiniteUpdateError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError, read_rounds
from hpfl.reporting.summary import environment, time_to_target
from hpfl.training.cloud_step import DivergedError
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
    "downlink_bits",
    "broadcast_s",
    "planning_s",
    "max_staleness",
    "step_scale",
    "noise_scale",
    "backdoor_success",
    "personalised_backdoor_success",
)
"""What is kept of every round, where its record has it."""
PER_UE = ("samples", "personalised_accuracy", "global_accuracy")
"""What is kept of every UE, at the end."""

CHECKPOINT_EVERY = 100
"""Rounds between the checkpoints of an unfinished part, which is saved at a stop too."""

Probe = Callable[..., Mapping[str, Any]]
"""Runs a configuration, told `device`, `data_dir` and `hooks`; hands back what the file holds besides the rounds."""

Rounds = Sequence[Mapping[str, Any]]
Enough = Callable[[Rounds], bool]
"""Whether these rounds are all that a part needs."""


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

    @cached_property
    def key(self) -> str:
        """Everything that decides the part's numbers; a file with another key is not this part's."""
        limits = [self.config.training.rounds, self.stop_at_accuracy, self.stop_at_s]
        told = "".join(f" {function.__name__}" for function in (self.probe, self.enough) if function is not None)
        return f"{fingerprint(self.config)} {json.dumps(limits)}{told}"

    def file(self, out: Path) -> Path:
        """Where its results lie."""
        return out / "parts" / f"{self.name}.json"

    def kept(self, out: Path) -> Path:
        """The folder of what is kept of it while it runs, one within for each configuration, version and machine."""
        return out / "unfinished" / self.name

    def unfinished(self, out: Path, device: str) -> Path:
        """Where it keeps what it has while it runs; what another version or machine began is not gone on with."""
        place = json.dumps(environment(device=choose_device(device).type), sort_keys=True)
        made_by = hashlib.blake2b(place.encode(), digest_size=4).hexdigest()
        return self.kept(out) / f"{fingerprint(self.config)}-{made_by}"


def done(part: StudyPart, out: Path) -> dict[str, Any] | None:
    """The part's results, if they are there and are this part's."""
    try:
        found: dict[str, Any] = json.loads(part.file(out).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("key") == part.key else None


def run_part(part: StudyPart, out: Path, *, device: str, data_dir: Path | None, hooks: Hooks | None = None) -> None:
    """Run it, from where it was stopped, and leave its file, at once and whole; a run that diverges is a result too.

    `wall_s` in the file is the time since the last stop.
    """
    folder, hooks = part.unfinished(out, device), hooks or Hooks()
    limit = _Limit(part, _begun(part, folder))

    def watch(record: RoundRecord) -> None:
        limit.see(record)
        hooks.on_round(record)

    diverged, seen, began = None, dict[str, Any](), time.perf_counter()
    watching = Hooks(on_round=watch, should_stop=lambda: limit.reached or hooks.should_stop(), download=hooks.download)
    try:
        if part.probe is None:
            seen |= _per_ue(part.config, folder, device=device, data_dir=data_dir, hooks=watching)
        else:
            seen |= part.probe(part.config, device=device, data_dir=data_dir, hooks=watching)
    except (DivergedError, NonFiniteUpdateError) as error:
        diverged = str(error)
    whole = part.probe is None and (
        diverged is not None or limit.reached or len(limit.rows) >= part.config.training.rounds
    )
    if hooks.should_stop() and not whole:
        return
    content = {
        "key": part.key,
        "name": part.name,
        "labels": dict(part.labels),
        "diverged": diverged,
        "environment": environment(device=choose_device(device).type),
        "wall_s": time.perf_counter() - began,
        "rounds": {name: [row.get(name) for row in limit.rows] for name in COLUMNS},
        "ues": None,
        **seen,
    }
    part.file(out).parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(part.file(out), json.dumps(content, allow_nan=False))
    shutil.rmtree(folder, ignore_errors=True)


def _per_ue(config: Config, folder: Path, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """An ordinary run, begun or continued in `folder`, and the figures of every UE at its end."""
    training = config.training.model_copy(update={"checkpoint_every": CHECKPOINT_EVERY})
    often = config.model_copy(update={"training": training})
    place: dict[str, Any] = {"out": folder, "figures": False, "device": device, "data_dir": data_dir}
    try:
        result = run_experiment(often, **place, resume=folder.exists(), hooks=hooks)
    except CheckpointError:
        shutil.rmtree(folder)
        result = run_experiment(often, **place, hooks=hooks)
    return {"ues": {name: _plain(result.ues[name]) for name in PER_UE}}


def _begun(part: StudyPart, folder: Path) -> list[dict[str, Any]]:
    """The rounds done before a stop. What cannot be continued is cleared away: it is damaged, or had all it needs."""
    if not folder.exists():
        return []
    try:
        rows = read_rounds(folder)
    except OutputError:
        rows = []
    if not rows or len(rows) > part.config.training.rounds or _Limit(part, rows).reached:
        shutil.rmtree(folder)
        return []
    return rows


def _plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers as JSON has them; five digits are more than an accuracy has."""
    return [round(float(value), 5) if np.isfinite(value) else None for value in values]


class _Limit:
    """Watches a run for the moment at which its part has all it needs; `rows` are the rounds it had before."""

    def __init__(self, part: StudyPart, rows: Iterable[dict[str, Any]] = ()) -> None:
        self.part, self.rows, self.reached = part, list[dict[str, Any]](), False
        for row in rows:
            self._add(row)

    def see(self, record: RoundRecord) -> None:
        del self.rows[record.round - 1 :]  # rounds after the last checkpoint come again
        self._add(record.to_json())

    def _add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        late = self.part.stop_at_s is not None and row["time_s"] >= self.part.stop_at_s
        self.reached = self.reached or late or self._there(row) or self._enough(row)

    def _there(self, row: Mapping[str, Any]) -> bool:
        target, accuracy = self.part.stop_at_accuracy, row["personalised_accuracy"]
        if target is None or accuracy is None or accuracy < target:
            return False
        return time_to_target(self.rows, target) is not None

    def _enough(self, row: Mapping[str, Any]) -> bool:
        asked = self.part.enough
        return asked is not None and row["personalised_accuracy"] is not None and asked(self.rows)
