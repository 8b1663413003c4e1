"""The audit log: what was aggregated, round by round, so that anyone can recompute the model from it.

`audit.jsonl` is only ever appended to. A line of kind `start` names the model the following rounds begin with; a round
that a killed cloud repeats is logged again after a new `start`, which takes the place of the rounds from there on. With
mode `full` the updates lie beside it, in `audit/`; scripts/audit_recurrence.py recomputes every round from them. A
`start` also has what the combine rule remembers then, the codings and what the cloud's codec has left unsent; each
round names the rule, its options and every update's share, and how updates and the step were coded, where they were.

All of it is on the disk before a checkpoint counts, which vouches for the log as it is then. So after a power cut the
audit covers every round that a checkpoint knows.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.numpy

from hpfl import atomic
from hpfl.deployment.named_model import NamedModel
from hpfl.deployment.wire import Vector, digest_of
from hpfl.histories import AppendedFile
from hpfl.training.counted import Counted
from hpfl.training.step_coding import SentStep
from hpfl.training.written_state import Tensors, taken_apart

LOG, FOLDER = "audit.jsonl", "audit"
_RUN = re.compile(rb'"run": "([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Aggregated:
    """One edge's part in a round; the message that it came in, where that was coded."""

    member: int
    base_round: int
    weight: float
    factor: float
    update: Vector
    ues: Sequence[int]
    message: Vector | None = None


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """What a round makes its model of: which updates, in which order and with which weights, on which model.

    `outer_lr` is the step on their mean, with a planner's own scale; `combine` the rule that stands in for the mean, by
    `name` and `options`; `coding` the entry of the menu of codings by which updates came, and `step` how the step
    travels down, which is what the model moves by (None: as the model). `counted` is what of each update counts by the
    share of the UEs `heard` (None: nothing).
    """

    before: NamedModel
    parts: Sequence[Aggregated]
    outer_lr: float
    combine: Mapping[str, Any]
    planned_s: float
    measured_s: float
    coding: int = 0
    step: SentStep | None = None
    counted: Counted | None = None
    heard: int = 0


@dataclass(frozen=True, kw_only=True)
class LoggedCodings:
    """The menu of codings, each step of a chain by name and options, and what is needed to code again.

    `arrays` are what the cloud has left unsent, `cloud_codec`, and the `places` of parameters that travel, where there
    are such.
    """

    menu: Sequence[Sequence[tuple[str, Mapping[str, Any]]]]
    seed: int
    arrays: Mapping[str, Vector]


class AuditLog:
    """Writes the log of one run: told of its start, then of every round's updates and of the model made of them."""

    way_on = f"move it and {FOLDER}/ elsewhere: the run goes on, and another audit begins"

    def __init__(self, out: Path, mode: Literal["full", "hashes"]) -> None:
        self.path = out / LOG
        self._folder = out / FOLDER
        self._mode = mode
        self._log = AppendedFile(self.path)
        self._unsynced: list[Path] = []

    def start(
        self, model: NamedModel, *, rule: Mapping[str, Any] | None = None, codings: LoggedCodings | None = None
    ) -> None:
        """The model that the rounds from here on begin with, and what combine rule and codec remember then."""
        name, tag = model.tag.base.hex(), model.tag
        tensors: Tensors = {}
        note = taken_apart("rule", rule or {}, tensors)
        arrays = {"params": model.vector} | {key: tensor.numpy() for key, tensor in tensors.items()}
        line = {"kind": "start", "run": tag.run, "round": tag.round, "params": name, "rule": note}
        if codings is not None:
            arrays |= codings.arrays
            line["codings"] = {"menu": codings.menu, "seed": codings.seed}
        self._append({**line, "file": self._keep(f"start-{tag.round:08d}-{name[:8]}", arrays)})

    def stepped(self, taken: Uploaded, after: NamedModel, shares: Mapping[int, float]) -> None:
        """A round's updates, the model that they have made, and each edge's share in the step."""
        parts, tag, name = taken.parts, after.tag, after.tag.base.hex()
        stack = {"updates": np.stack([part.update for part in parts])} if parts else {}
        messages = [part.message for part in parts if part.message is not None]
        if messages:
            stack["messages"] = np.stack(messages)
        file = self._keep(f"round-{tag.round:08d}-{name[:8]}", stack)
        line = {
            "kind": "round",
            "run": tag.run,
            "round": tag.round,
            "combine": taken.combine,
            "planned_s": taken.planned_s,
            "measured_s": taken.measured_s,
            "outer_lr": taken.outer_lr,
            "members": [part.member for part in parts],
            "base_rounds": [part.base_round for part in parts],
            "weights": [part.weight for part in parts],
            "factors": [part.factor for part in parts],
            "shares": [shares[part.member] for part in parts],
            "updates": [digest_of(part.update).hex() for part in parts],
            "ues": [list(part.ues) for part in parts],
            "before": taken.before.tag.base.hex(),
            "after": name,
            "file": file,
        }
        if messages:
            line |= {"coding": taken.coding, "messages": [digest_of(message).hex() for message in messages]}
        if taken.step is not None:
            kind = "coded" if taken.step.encode is not None else "forwarded"
            line["step"] = {"kind": kind, "coding": taken.step.coding}
        if (counted := taken.counted) is not None:
            line["counted"] = {"from": counted.places.start, "to": counted.places.stop, "of": counted.num_ues}
        self._append(line)

    def unsynced(self) -> list[Path]:
        """The files that new lines name, their folder, and the log."""
        files, self._unsynced = self._unsynced, []
        return [*files, *([self._folder] if files else []), *self._log.unsynced()]

    def mark(self) -> str:
        """The mark of the log."""
        return self._log.mark()

    def go_on(self, told: str) -> None:
        """Nothing is dropped: the start that follows takes the place of what a checkpoint does not know."""

    def ended(self) -> None:
        """No more rounds will come."""
        self._log.close()

    def _keep(self, stem: str, arrays: dict[str, Vector]) -> str | None:
        if self._mode != "full" or not arrays:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        path, partial = self._folder / f"{stem}.safetensors", self._folder / f".{stem}{atomic.PARTIAL_SUFFIX}"
        safetensors.numpy.save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, partial)
        partial.replace(path)
        self._unsynced.append(path)
        return f"{FOLDER}/{path.name}"

    def _append(self, line: dict[str, Any]) -> None:
        """A line is whole or cut off at its end; a cut line is ended first, so that it stays the only damage."""
        content = (json.dumps(line, allow_nan=False) + "\n").encode()
        self._log.append(content if self._log.is_ended else b"\n" + content)


def logged_run(out: Path) -> str | None:
    """The name of the run whose log lies in a folder; None where there is no log, or its lines do not agree."""
    path = out / LOG
    names = set(_RUN.findall(path.read_bytes())) if path.exists() else set()
    return names.pop().decode("utf-8", errors="replace") if len(names) == 1 else None
