"""Recompute a deployed run from its audit log: with the combine rule "mean", without any of the code that produced it.

    .venv/bin/python scripts/audit_recurrence.py RUN_FOLDER

For every round in `audit.jsonl` the script reads the updates that were aggregated and recomputes

    w_{t+1} = w_t - outer_lr * sum_k (weight_k / sum of weights) * factor_k * u_k

with sums in float64, in the logged order, rounded once to the model's precision (`factor` is 1 but where the experiment
discounts stale updates; it multiplies in the model's precision; `outer_lr` includes a planner's own scale of the step)

(where a method has a part of each update count by the share of the UEs that were heard, `counted` says which, and of
how many: that part of u_k is multiplied by that share, in the model's precision, before)

and compares it with the logged digest, bit for bit, and each update's share in the step with the logged one. Where
another package's combine rule takes the place of the sum, that rule is called (`hpfl.training.combine.COMBINES`), with
the state that it has left behind since the logged start.

Where the step travelled as the edges' messages, the model moved by their sum with float32 factors, `outer_lr` times
each share; where the cloud has coded it, by what is decoded: the codec is asked again (`hpfl.learning.uplink`), with
the error that it has left behind since the logged start. Updates that came coded are decoded again from their messages.

It also checks that the rounds follow each other, that
every update is the one whose digest was logged, that no edge's update on one base was counted twice and that none was
computed on a model that did not exist yet. Where a killed cloud repeated rounds, those it repeated are checked too and
reported as superseded; what a crash spoilt of them is reported as unread. Checkpoints must hold the recomputed
parameters, and the log must be what they vouch for.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

LOG = "audit.jsonl"


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


def lines_of(log: Path) -> list[dict | None]:
    """All lines, None for one that cannot be read; what a crash has left of a line at the end is left out."""
    entries: list[dict | None] = []
    for line in log.read_bytes().split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        entries.append(entry if isinstance(entry, dict) else None)
    return entries


def arrays_of(folder: Path, entry: dict) -> dict[str, np.ndarray]:
    """What lies in the file that a line names."""
    if entry["file"] is None:
        raise AuditError(f'round {entry["round"]} has digests alone; the updates are logged with `audit = "full"`')
    try:
        return load_file(folder / entry["file"])
    except (OSError, SafetensorError) as error:
        raise AuditError(f"{entry['file']} is missing or damaged ({error}); put it back from a copy") from error


class Memory(NamedTuple):
    """What the cloud remembers between rounds: its combine rule's state, and what its codec has left unsent.

    `codings` are the chains of codecs that the experiment may choose from, by name and options, `seed` that of its
    draws and `places` the parameters that travel (None: all).
    """

    rule: Any = MappingProxyType({})
    unsent: np.ndarray | None = None
    codings: Sequence[list] = ()
    seed: int = 0
    places: np.ndarray | None = None

    def digest(self) -> str:
        """A digest of what changes from round to round."""
        unsent = self.unsent if self.unsent is None or self.unsent.any() else None  # what has not begun is 0
        return rule_digest(self.rule) + ("" if unsent is None else digest(unsent))

    def chain(self, coding: int) -> Any:
        """One entry of the menu of codings."""
        from hpfl.learning.uplink import UPLINKS, Uplink

        return Uplink.of([(name, UPLINKS.get(name, **options)()) for name, options in self.codings[coding]])

    def on_the_way(self, like: np.ndarray) -> np.ndarray:
        """Places of the numbers that travel of a vector."""
        return np.arange(like.size) if self.places is None else self.places


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


def memory_at(entry: dict, arrays: dict[str, np.ndarray]) -> Memory:
    """What the cloud remembered at a logged start."""
    known = entry.get("codings") or {"menu": [], "seed": 0}
    rule = remembered_at(entry, arrays)
    return Memory(rule, arrays.get("cloud_codec"), known["menu"], known["seed"], arrays.get("places"))


def check_messages(entry: dict, updates: np.ndarray, messages: np.ndarray, memory: Memory) -> None:
    """Updates that came coded are what is decoded of their messages."""
    import torch

    chain, dtype = memory.chain(entry["coding"]), torch.from_numpy(updates[:1]).dtype
    for member, update, message, name in zip(entry["members"], updates, messages, entry["messages"], strict=True):
        at, found = memory.on_the_way(update), np.zeros_like(update)
        found[at] = chain.from_bytes(message.tobytes(), at.size, dtype).numpy()
        if digest(message) != name or not np.array_equal(found, update):
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not what its message says")


def forwarded(params: np.ndarray, updates: np.ndarray, factors: list[float]) -> np.ndarray:
    """The model of whoever takes a step as the edges' messages, each with a float32 factor."""
    moved = params.astype(np.float64)
    for factor, update in zip(factors, updates, strict=True):
        moved = moved - update.astype(np.float64) * np.float64(np.float32(factor))
    return moved.astype(params.dtype)


def coded(params: np.ndarray, step: np.ndarray, entry: dict, memory: Memory) -> tuple[np.ndarray, Memory]:
    """The model of whoever takes a step as the cloud has coded it, and what the cloud has left unsent then."""
    import torch

    from hpfl.learning.uplink import Draws
    from hpfl.rng import Streams

    chain, at = memory.chain(entry["step"]["coding"]), memory.on_the_way(params)
    own = torch.from_numpy(step.astype(params.dtype)[at]).unsqueeze(0)
    most = max(memory.chain(one).numbers_kept(at.size) for one in range(len(memory.codings)))
    used, before = chain.numbers_kept(at.size), np.zeros((1, most), params.dtype)
    if memory.unsent is not None:
        before = memory.unsent
    draws = Draws(Streams(memory.seed), entry["round"] - 1, np.zeros(1, np.int64), torch.device("cpu"), "codec/cloud")
    arrives, left = chain.send(own, torch.from_numpy(before[:, :used]), draws)
    moved = params.astype(np.float64)
    moved[at] -= arrives[0].numpy().astype(np.float64)
    unsent = np.concatenate([left.numpy(), before[:, used:]], axis=1) if used else before
    return moved.astype(params.dtype), memory._replace(unsent=unsent if most else None)


def as_joined(updates: np.ndarray, entry: dict) -> np.ndarray:
    """Updates as they are joined: a part of them may count by the share of the UEs that were heard."""
    counted = entry.get("counted")
    if counted is None:
        return updates
    own, heard = updates.copy(), [ue for ues in entry["ues"] for ue in ues]
    if len(set(heard)) != len(heard) or len(heard) > counted["of"]:
        raise AuditError(f"round {entry['round']}: a UE was heard twice, or more than {counted['of']} were")
    own[:, counted["from"] : counted["to"]] *= own.dtype.type(len(heard) / counted["of"])
    return own


def recomputed(params: np.ndarray, entry: dict, folder: Path, memory: Memory) -> tuple[np.ndarray, Memory]:
    """The model after one logged round, and what the cloud remembers then."""
    if not entry["members"]:
        return params, memory
    arrays = arrays_of(folder, entry)
    updates = arrays["updates"]
    for member, update, logged in zip(entry["members"], updates, entry["updates"], strict=True):
        if digest(update) != logged:
            raise AuditError(
                f"round {entry['round']}: the update of edge {member} is not the one that was logged ({entry['file']})"
            )
        if not np.isfinite(update).all():
            raise AuditError(f"round {entry['round']}: the update of edge {member} is not finite")
    if entry.get("messages"):
        check_messages(entry, updates, arrays["messages"], memory)
    updates = as_joined(updates, entry)
    pairs = zip(updates, entry["factors"], strict=True)
    scaled = [update if factor == 1 else update * update.dtype.type(factor) for update, factor in pairs]
    rule = rule_of(entry)
    if rule[0] == "mean":
        direction, shares = mean_of(scaled, entry["weights"])
    else:
        direction, shares, state = combined_by(rule, scaled, entry, memory.rule)
        memory = memory._replace(rule=state)
    found = [share * factor for share, factor in zip(shares, entry["factors"], strict=True)]
    if entry.get("shares", found) != found:
        raise AuditError(f"round {entry['round']}: the shares {entry['shares']} were logged; they are {found}")
    if entry["outer_lr"] == 0:
        return params, memory
    step = entry["outer_lr"] * direction
    match (entry.get("step") or {}).get("kind"):
        case "forwarded":
            return forwarded(params, updates, [entry["outer_lr"] * share for share in found]), memory
        case "coded":
            return coded(params, step, entry, memory)
    return (params.astype(np.float64) - step).astype(params.dtype), memory


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


class Course:
    """The rounds of one log, line by line: what they have come to, and those that a later start took back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run: str | None = None
        self.params: np.ndarray | None = None
        self.memory = Memory()
        self.models: dict[int, str] = {}
        self.rules: dict[int, str] = {}
        self.kept: dict[int, dict] = {}
        self.expected = self.starts = self.superseded = 0

    def take(self, entry: dict) -> None:
        """Check one line and go on by it; raises where it does not hold."""
        if self.run not in {None, entry["run"]}:
            raise AuditError(f"run {entry['run']} is logged among run {self.run}")
        (self._start if entry["kind"] == "start" else self._round)(entry)
        self.run, self.expected = entry["run"], entry["round"] + 1

    def _start(self, entry: dict) -> None:
        number, arrays = entry["round"], arrays_of(self.folder, entry)
        params, memory = arrays["params"], memory_at(entry, arrays)
        if digest(params) != entry["params"]:
            raise AuditError(f"the start at round {number} is not the model that was logged ({entry['file']})")
        if self.models and self.models.get(number) != entry["params"]:
            raise AuditError(f"the start at round {number} is not the model of that round")
        if self.rules.get(number, memory.digest()) != memory.digest():
            raise AuditError(f"the start at round {number} is not what the rule remembered of that round")
        for later in [one for one in self.kept if one > number]:
            del self.kept[later], self.models[later], self.rules[later]
            self.superseded += 1
        self.starts += 1
        self.params, self.memory = params, memory
        self.models[number], self.rules[number] = entry["params"], memory.digest()

    def _round(self, entry: dict) -> None:
        number = entry["round"]
        if self.params is None or number != self.expected:
            raise AuditError(f"round {number} is logged where round {self.expected} was due")
        if digest(self.params) != entry["before"]:
            raise AuditError(f"round {number} does not begin with the model of the round before")
        params, memory = recomputed(self.params, entry, self.folder, self.memory)
        if digest(params) != entry["after"]:
            raise AuditError(f"round {number}: the recurrence gives another model than was logged")
        self.params, self.memory = params, memory
        self.models[number], self.rules[number] = entry["after"], memory.digest()
        self.kept[number] = entry


def audit(folder: Path) -> dict[str, int]:
    """Counts of what was checked; raises where the log does not hold.

    A line or file that is damaged may stand among rounds that a later start has taken back: whatever follows it, up to
    that start, is counted as unread. So a crash that spoilt what no checkpoint knew yet is no fault of the audit.
    """
    course, unread, fault = Course(folder), 0, None
    for number, entry in enumerate(lines_of(folder / LOG), start=1):
        if fault is not None and (entry is None or entry.get("kind") != "start"):
            unread += 1
            continue
        try:
            if entry is None:
                raise AuditError(f"line {number} of {LOG} is damaged")
            course.take(entry)
            fault = None
        except AuditError as error:
            fault, unread = fault or error, unread + 1
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            what = f"line {number} of {LOG} is damaged: {type(error).__name__} {error}"
            fault, unread = fault or AuditError(what), unread + 1
    if fault is not None:
        raise fault
    counted: dict[int, int] = {}
    for number in sorted(course.kept):
        check_round(course.kept[number], counted)
    checkpoints = check_checkpoints(folder, course.models)
    return {
        "rounds": len(course.kept),
        "updates": sum(len(entry["members"]) for entry in course.kept.values()),
        "superseded": course.superseded,
        "starts": course.starts,
        "checkpoints": checkpoints,
        **({"unread": unread} if unread else {}),
    }


def check_checkpoints(folder: Path, models: dict[int, str]) -> int:
    """Checkpoints hold the recomputed parameters, and vouch for the log up to then."""
    found = sorted((folder / "checkpoints").glob("round-*.safetensors"))
    for path in found:
        number = int(path.stem.removeprefix("round-"))
        try:
            with safe_open(path, framework="np") as file:
                params, header = file.get_tensor("params"), (file.metadata() or {}).get("hpfl", "{}")
            told = json.loads(header).get("marks", {}).get(LOG)
        except (OSError, SafetensorError, ValueError, AttributeError) as error:
            raise AuditError(f"{path.name} is damaged ({error}); the cloud passes it over when it starts") from error
        if number in models and digest(params) != models[number]:
            raise AuditError(f"{path.name} does not hold the model of round {number}")
        if told is not None and not vouched(folder / LOG, told):
            raise AuditError(f"{LOG} is not what it was when {path.name} was written")
    return len(found)


def vouched(log: Path, told: str) -> bool:
    """Whether a log begins with so many bytes that have this digest."""
    size, name = told.split()
    content = log.read_bytes()[: int(size)]
    return len(content) == int(size) and hashlib.blake2b(content, digest_size=16).hexdigest() == name


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        counts = audit(Path(sys.argv[1]))
    except (AuditError, OSError) as error:
        sys.exit(f"the audit fails: {error}")
    print("the recurrence holds exactly:", ", ".join(f"{value} {name}" for name, value in counts.items()))


if __name__ == "__main__":
    main()
