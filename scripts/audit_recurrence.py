"""Recompute a deployed run from its audit log, without any of the code that produced it.

    .venv/bin/python scripts/audit_recurrence.py RUN_FOLDER

For every round in `audit.jsonl` the script reads the updates that were aggregated and recomputes

    w_{t+1} = w_t - outer_lr * sum_k (weight_k / sum of weights) * factor_k * u_k

with sums in float64, in the logged order, rounded once to the model's precision (`factor` is 1 but where the experiment
discounts stale updates; it multiplies in the model's precision; `outer_lr` includes a planner's own scale of the step)

and compares it with the logged digest, bit for bit. It also checks that the rounds follow each other, that
every update is the one whose digest was logged, that no edge's update on one base was counted twice and that none was
computed on a model that did not exist yet. Where a killed cloud repeated rounds, those it repeated are checked too and
reported as superseded. Newer checkpoints must hold the recomputed parameters.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


class AuditError(Exception):
    """The log and the mathematics differ."""


def digest(vector: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(vector).data, digest_size=16).hexdigest()


def lines_of(log: Path) -> list[dict]:
    """All whole lines; a line cut off by a crash may be last, or stand before a new start."""
    raw = log.read_bytes().split(b"\n")
    entries: list[dict] = []
    damaged = False
    for number, line in enumerate(raw, start=1):
        if not line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            damaged = True
            continue
        if damaged and entry["kind"] != "start":
            raise AuditError(f"line {number} follows a damaged line and is no start")
        damaged = False
        entries.append(entry)
    return entries


def recomputed(params: np.ndarray, entry: dict, folder: Path) -> np.ndarray:
    """The model after one logged round."""
    if not entry["members"]:
        return params
    updates = load_file(folder / entry["file"])["updates"]
    for member, update, logged in zip(entry["members"], updates, entry["updates"], strict=True):
        if digest(update) != logged:
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not the one that was logged")
        if not np.isfinite(update).all():
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not finite")
    if entry["aggregation"] != "mean":
        raise AuditError(f"the rule {entry['aggregation']!r} is not the mean, and unknown here")
    if entry["outer_lr"] == 0:
        return params
    total = sum(entry["weights"])
    mean = np.zeros(params.shape, dtype=np.float64)
    for weight, factor, update in zip(entry["weights"], entry["factors"], updates, strict=True):
        scaled = update if factor == 1 else update * update.dtype.type(factor)
        mean = mean + scaled.astype(np.float64) * (weight / total)
    return (params.astype(np.float64) - entry["outer_lr"] * mean).astype(params.dtype)


def check_round(entry: dict, counted: dict[int, int]) -> None:
    """No edge twice on one base, no base from the future."""
    if len(set(entry["members"])) != len(entry["members"]):
        raise AuditError(f"round {entry['round']}: an edge was aggregated twice")
    for member, base in zip(entry["members"], entry["base_rounds"], strict=True):
        if base >= entry["round"]:
            raise AuditError(f"round {entry['round']}: edge {member} computed on the model of round {base}")
        if base <= counted.get(member, -1):
            raise AuditError(f"round {entry['round']}: the update of edge {member} on round {base} was counted before")
        counted[member] = base


def audit(folder: Path) -> dict[str, int]:
    """Counts of what was checked; raises where the log does not hold."""
    params: np.ndarray | None = None
    chain: dict[int, str] = {}
    kept: dict[int, dict] = {}
    superseded = starts = 0
    run = None
    for entry in lines_of(folder / "audit.jsonl"):
        if run is not None and entry["run"] != run:
            raise AuditError(f"run {entry['run']} is logged among run {run}")
        run = entry["run"]
        if entry["kind"] == "start":
            starts += 1
            params = load_file(folder / entry["file"])["params"]
            if digest(params) != entry["params"]:
                raise AuditError(f"the start at round {entry['round']} is not the model that was logged")
            if chain and chain.get(entry["round"]) != entry["params"]:
                raise AuditError(f"the start at round {entry['round']} is not the model of that round")
            for later in [number for number in kept if number > entry["round"]]:
                del kept[later], chain[later]
                superseded += 1
            chain[entry["round"]] = entry["params"]
            expected = entry["round"] + 1
            continue
        if params is None or entry["round"] != expected:
            raise AuditError(f"round {entry['round']} is logged where round {expected} was due")
        if digest(params) != entry["before"]:
            raise AuditError(f"round {entry['round']} does not begin with the model of the round before")
        params = recomputed(params, entry, folder)
        if digest(params) != entry["after"]:
            raise AuditError(f"round {entry['round']}: the recurrence gives another model than was logged")
        chain[entry["round"]], kept[entry["round"]] = entry["after"], entry
        expected = entry["round"] + 1
    counted: dict[int, int] = {}
    for number in sorted(kept):
        check_round(kept[number], counted)
    checkpoints = check_checkpoints(folder, chain)
    updates = sum(len(entry["members"]) for entry in kept.values())
    return {
        "rounds": len(kept),
        "updates": updates,
        "superseded": superseded,
        "starts": starts,
        "checkpoints": checkpoints,
    }


def check_checkpoints(folder: Path, chain: dict[int, str]) -> int:
    """Checkpoints hold the recomputed parameters."""
    found = sorted((folder / "checkpoints").glob("round-*.safetensors"))
    for path in found:
        number = int(path.stem.removeprefix("round-"))
        if number in chain and digest(load_file(path)["params"]) != chain[number]:
            raise AuditError(f"{path.name} does not hold the model of round {number}")
    return len(found)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        counts = audit(Path(sys.argv[1]))
    except (AuditError, OSError, KeyError) as error:
        sys.exit(f"the audit fails: {error}")
    print("the recurrence holds exactly:", ", ".join(f"{value} {name}" for name, value in counts.items()))


if __name__ == "__main__":
    main()
