"""The audit log: what was aggregated, round by round, so that anyone can recompute the model from it.

`audit.jsonl` is only ever appended to. A line of kind `start` names the model the following rounds begin with; a round
that a killed cloud repeats is logged again after a new `start`, which takes the place of the rounds from there on. With
mode `full` the updates lie beside it, in `audit/`; scripts/audit_recurrence.py recomputes every round from them.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.numpy

from hpfl.deployment.wire import Vector, digest_of

LOG, FOLDER = "audit.jsonl", "audit"


@dataclass(frozen=True, kw_only=True)
class Aggregated:
    """One edge's part in a round."""

    member: int
    base_round: int
    weight: float
    factor: float
    update: Vector
    ues: Sequence[int]


class AuditLog:
    """Writes the log of one run."""

    def __init__(self, out: Path, mode: Literal["full", "hashes"]) -> None:
        self._out = out
        self._mode = mode
        self._log = out / LOG

    def start(self, params: Vector, *, round_number: int, run: str) -> None:
        """The model that the rounds from here on begin with."""
        name = self._keep(f"start-{round_number:08d}-{_hex(params)[:8]}", {"params": params})
        self._append({"kind": "start", "run": run, "round": round_number, "params": _hex(params), "file": name})

    def round(
        self, before: Vector, after: Vector, parts: Sequence[Aggregated], *, outer_lr: float, **facts: Any
    ) -> None:
        """One round: which updates, in which order and with which weights, made `after` of `before`."""
        stack = {"updates": np.stack([part.update for part in parts])} if parts else {}
        name = self._keep(f"round-{facts['round']:08d}-{_hex(after)[:8]}", stack)
        line = {
            "kind": "round",
            **facts,
            "outer_lr": outer_lr,
            "members": [part.member for part in parts],
            "base_rounds": [part.base_round for part in parts],
            "weights": [part.weight for part in parts],
            "factors": [part.factor for part in parts],
            "updates": [_hex(part.update) for part in parts],
            "ues": [list(part.ues) for part in parts],
            "before": _hex(before),
            "after": _hex(after),
            "file": name,
        }
        self._append(line)

    def _keep(self, stem: str, arrays: dict[str, Vector]) -> str | None:
        if self._mode != "full" or not arrays:
            return None
        folder = self._out / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{stem}.partial"
        safetensors.numpy.save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, partial)
        partial.replace(folder / f"{stem}.safetensors")
        return f"{FOLDER}/{stem}.safetensors"

    def _append(self, line: dict[str, Any]) -> None:
        """A line is whole or cut off at its end; a cut line is ended first, so that it stays the only damage."""
        content = (json.dumps(line, allow_nan=False) + "\n").encode()
        descriptor = os.open(self._log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                content = b"\n" + content
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)


def _hex(vector: Vector) -> str:
    return digest_of(vector).hex()
