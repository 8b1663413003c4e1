"""Recompute a deployed run from its audit log: with the combine rule "mean", without any of the code that produced it.

    .venv/bin/python scripts/audit_recurrence.py RUN_FOLDER

For every round in `audit.jsonl` the script reads the updates that were aggregated and recomputes

    w_{t+1} = w_t - outer_lr * sum_k (weight_k / sum of weights) * factor_k * u_k

with sums in float64, in the logged order, rounded once to the model's precision (`factor` is 1 but where the experiment
discounts stale updates; it multiplies in the model's precision; `outer_lr` includes a planner's own scale of the step)

and compares it with the logged digest, bit for bit, and each update's share in the step with the logged one. Where
another package's combine rule takes the place of the sum, that rule is called (`hpfl.training.combine.COMBINES`), with
the state that it has left behind since the logged start. It also checks that the rounds follow each other, that
every update is the one whose digest was logged, that no edge's update on one base was counted twice and that none was
computed on a model that did not exist yet. Where a killed cloud repeated rounds, those it repeated are checked too and
reported as superseded. Newer checkpoints must hold the recomputed parameters.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file


class AuditError(Exception):
    """The log and the mathematics differ."""


def digest(vector: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(vector).data, digest_size=16).hexdigest()


def rule_digest(remembered: Any, name: str = "") -> str:
    """A digest of what a combine rule remembers: tensors, arrays and plain values by name."""
    if isinstance(remembered, Mapping):
        parts = [rule_digest(remembered[key], f"{name}/{key}") for key in sorted(remembered)]
        return hashlib.blake2b("".join(parts).encode(), digest_size=16).hexdigest()
    if hasattr(remembered, "dtype"):
        array = np.asarray(remembered)
        return f"{name} {array.dtype} {array.shape} {digest(array)};"
    return f"{name} {json.dumps(remembered)};"


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


def rule_of(entry: dict) -> tuple[str, dict]:
    """The name and the options of a round's combine rule; older logs have the name alone."""
    rule = entry.get("combine") or {"name": entry["aggregation"], "options": {}}
    return rule["name"], rule["options"]


def mean_of(updates: list[np.ndarray], weights: list[float]) -> tuple[np.ndarray, list[float]]:
    """The mean by weight, added in the order given, and each update's share in it."""
    total = sum(weights)
    mean = np.zeros(updates[0].shape, dtype=np.float64)
    for weight, update in zip(weights, updates, strict=True):
        mean = mean + update.astype(np.float64) * (weight / total)
    return mean, [weight / total for weight in weights]


def combined_by(
    rule: tuple[str, dict], updates: list[np.ndarray], entry: dict, state: Any
) -> tuple[np.ndarray, list[float], Any]:
    """What a combine rule of another package makes of the updates: direction, shares, and what it remembers now."""
    import torch

    from hpfl.training.combine import COMBINES, Contribution

    name, options = rule
    ages = [entry["round"] - 1 - base for base in entry["base_rounds"]]
    came = zip(entry["members"], map(torch.from_numpy, updates), entry["weights"], ages, strict=True)
    joined = COMBINES.get(name, **options)([Contribution(*one) for one in came], state)
    return joined.direction.numpy(), joined.shares.tolist(), joined.state


def remembered_at(entry: dict, arrays: dict[str, np.ndarray]) -> Any:
    """What the combine rule remembered at a logged start."""
    note = entry.get("rule") or {"kind": "json", "value": {}}
    if note["kind"] == "json":
        return note["value"]
    import torch

    from hpfl.training.written_state import put_together

    return put_together("rule", note, {name: torch.from_numpy(array) for name, array in arrays.items()})


def recomputed(params: np.ndarray, entry: dict, folder: Path, state: Any) -> tuple[np.ndarray, Any]:
    """The model after one logged round, and what the combine rule remembers then."""
    if not entry["members"]:
        return params, state
    updates = load_file(folder / entry["file"])["updates"]
    for member, update, logged in zip(entry["members"], updates, entry["updates"], strict=True):
        if digest(update) != logged:
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not the one that was logged")
        if not np.isfinite(update).all():
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not finite")
    pairs = zip(updates, entry["factors"], strict=True)
    scaled = [update if factor == 1 else update * update.dtype.type(factor) for update, factor in pairs]
    rule = rule_of(entry)
    if rule[0] == "mean":
        direction, shares = mean_of(scaled, entry["weights"])
    else:
        direction, shares, state = combined_by(rule, scaled, entry, state)
    found = [share * factor for share, factor in zip(shares, entry["factors"], strict=True)]
    if entry.get("shares", found) != found:
        raise AuditError(f"round {entry['round']}: the shares {entry['shares']} were logged; they are {found}")
    if entry["outer_lr"] == 0:
        return params, state
    return (params.astype(np.float64) - entry["outer_lr"] * direction).astype(params.dtype), state


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
    rules: dict[int, str] = {}
    state: Any = {}
    kept: dict[int, dict] = {}
    superseded = starts = 0
    run = None
    for entry in lines_of(folder / "audit.jsonl"):
        if run is not None and entry["run"] != run:
            raise AuditError(f"run {entry['run']} is logged among run {run}")
        run = entry["run"]
        if entry["kind"] == "start":
            starts += 1
            arrays = load_file(folder / entry["file"])
            params, state = arrays["params"], remembered_at(entry, arrays)
            if digest(params) != entry["params"]:
                raise AuditError(f"the start at round {entry['round']} is not the model that was logged")
            if chain and chain.get(entry["round"]) != entry["params"]:
                raise AuditError(f"the start at round {entry['round']} is not the model of that round")
            if rules.get(entry["round"], rule_digest(state)) != rule_digest(state):
                raise AuditError(f"the start at round {entry['round']} is not what the rule remembered of that round")
            for later in [number for number in kept if number > entry["round"]]:
                del kept[later], chain[later], rules[later]
                superseded += 1
            chain[entry["round"]], rules[entry["round"]] = entry["params"], rule_digest(state)
            expected = entry["round"] + 1
            continue
        if params is None or entry["round"] != expected:
            raise AuditError(f"round {entry['round']} is logged where round {expected} was due")
        if digest(params) != entry["before"]:
            raise AuditError(f"round {entry['round']} does not begin with the model of the round before")
        params, state = recomputed(params, entry, folder, state)
        if digest(params) != entry["after"]:
            raise AuditError(f"round {entry['round']}: the recurrence gives another model than was logged")
        chain[entry["round"]], kept[entry["round"]] = entry["after"], entry
        rules[entry["round"]] = rule_digest(state)
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
