"""Plays one run of a study to where its part has all it needs, from where it was stopped or killed, and sums it up.

While it runs it keeps records and checkpoints in a folder of its own; of a whole run that folder is the result.
"""

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl import atomic
from hpfl.config import Config
from hpfl.experiment import Hooks, choose_device, run_experiment
from hpfl.learning import NonFiniteUpdateError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.folder import CHECKPOINTS
from hpfl.reporting.store import OutputError, read_rounds
from hpfl.reporting.summary import environment, time_to_target
from hpfl.sweeps.jobs import Job, Playing
from hpfl.sweeps.kept_data import kept_dataset
from hpfl.sweeps.parts import StudyPart, done, part_from_plain
from hpfl.sweeps.run_ends import has_ended
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
"""Rounds between the checkpoints of an unfinished part, which is saved at a stop too; a whole run has its own."""
_MADE_BY = "made-by"


def job_of(part: StudyPart, out: Path, *, device: str, data_dir: Path | None, gpus: float = 0.0) -> Job:
    """The part as a job for an engine."""
    task = {
        "part": part.to_plain(),
        "out": str(out.resolve()),
        "device": device,
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
    }
    player, rounds = f"{__name__}:play_part", part.config.training.rounds
    like = part.name.rpartition("/")[0]
    kind: dict[str, Any] = {"player": player, "rounds": rounds, "gpus": gpus, "like": like}
    return Job(name=part.name, task=task, resumes=part.probe is None, **kind)


def play_part(task: Mapping[str, Any], playing: Playing) -> Mapping[str, Any]:
    """Play a job that `job_of` made."""
    part, out = part_from_plain(task["part"]), Path(task["out"])
    hooks = Hooks(
        on_round=lambda record: playing.on_round(record.round), should_stop=playing.should_stop, warn=playing.note
    )
    data_dir = None if task["data_dir"] is None else Path(task["data_dir"])
    run_part(part, out, device=task["device"], data_dir=data_dir, hooks=hooks)
    return {"done": done(part, out) is not None}


class _UnkeptError(Exception):
    """A stop was asked for in the middle of what only a probe knows, which is not kept."""


def run_part(part: StudyPart, out: Path, *, device: str, data_dir: Path | None, hooks: Hooks | None = None) -> None:
    """Run it, from where it was stopped, and leave its file, at once and whole; a run that diverges is a result too.

    `wall_s` in the file is the time since the last stop. A probe that is stopped begins anew the next time.
    """
    hooks = replace(hooks or Hooks(), dataset=kept_dataset)
    folder = _made_ready(part, out, device)
    limit = _Limit(part, _begun(part, folder))

    def watch(record: RoundRecord) -> None:
        limit.see(record)
        hooks.on_round(record)
        early = record.round < part.config.training.rounds and not limit.reached
        if part.probe is not None and early and hooks.should_stop():
            raise _UnkeptError

    def should_stop() -> bool:
        return limit.reached or (part.probe is None and hooks.should_stop())

    diverged, seen, began = None, dict[str, Any](), time.perf_counter()
    watching = replace(hooks, on_round=watch, should_stop=should_stop)
    try:
        if part.probe is None:
            seen |= _per_ue(part, folder, device=device, data_dir=data_dir, hooks=watching)
        else:
            seen |= part.probe(part.config, device=device, data_dir=data_dir, hooks=watching)
    except (DivergedError, NonFiniteUpdateError) as error:
        diverged = str(error)
    except _UnkeptError:
        return
    whole = part.probe is None and (
        diverged is not None or limit.reached or len(limit.rows) >= part.config.training.rounds
    )
    if part.probe is None and hooks.should_stop() and not whole:
        return
    content = {
        "key": part.key,
        **({"code": part.code} if part.code else {}),
        "name": part.name,
        "labels": dict(part.labels),
        "diverged": diverged,
        "environment": environment(device=choose_device(device).type),
        "wall_s": time.perf_counter() - began,
        **({} if part.whole else _columns(limit.rows)),
        **seen,
    }
    part.file(out).parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(part.file(out), json.dumps(content, allow_nan=False))
    shutil.rmtree(folder / CHECKPOINTS if part.whole else folder, ignore_errors=True)


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"rounds": {name: [row.get(name) for row in rows] for name in COLUMNS}, "ues": None}


def _made_ready(part: StudyPart, out: Path, device: str) -> Path:
    """The folder to run in; what another configuration, version or machine has left in that of a whole run goes."""
    if not part.whole:
        return part.unfinished(out, device)
    folder, mark, mine = part.folder(out), part.kept(out) / _MADE_BY, part.made_by(device)
    if not mark.is_file() or mark.read_text(encoding="utf-8") != mine:
        part.file(out).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        mark.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(mark, mine)
    return folder


def _per_ue(part: StudyPart, folder: Path, *, device: str, data_dir: Path | None, hooks: Hooks) -> Mapping[str, Any]:
    """An ordinary run, begun or continued in `folder`, and the figures of every UE at its end."""
    config = part.config if part.whole else _often(part.config)
    place: dict[str, Any] = {"out": folder, "figures": False, "device": device, "data_dir": data_dir}
    try:
        result = run_experiment(config, **place, resume=folder.exists(), hooks=hooks)
    except CheckpointError:
        shutil.rmtree(folder)
        result = run_experiment(config, **place, hooks=hooks)
    return {} if part.whole else {"ues": {name: _plain(result.ues[name]) for name in PER_UE}}


def _often(config: Config) -> Config:
    training = config.training.model_copy(update={"checkpoint_every": CHECKPOINT_EVERY})
    return config.model_copy(update={"training": training})


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
        self.reached = (
            self.reached or late or self._there(row) or self._enough(row) or has_ended(self.rows, self.part.ends)
        )

    def _there(self, row: Mapping[str, Any]) -> bool:
        target, accuracy = self.part.stop_at_accuracy, row["personalised_accuracy"]
        if target is None or accuracy is None or accuracy < target:
            return False
        return time_to_target(self.rows, target) is not None

    def _enough(self, row: Mapping[str, Any]) -> bool:
        asked = self.part.enough
        return asked is not None and row["personalised_accuracy"] is not None and asked(self.rows)
