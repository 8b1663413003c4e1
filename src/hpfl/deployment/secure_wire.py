"""Steps of a secure sum on the wire (docs/secure.md): what each may hold is checked before it reaches the protocol."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import Tag

ATTEMPT_BYTES = 16
SKETCH, UPDATE = "sketch", "update"

STEPS = (
    (pb.KEYS, ""),
    (pb.SHARES, ""),
    (pb.VOTES, ""),
    (pb.MASKED, SKETCH),
    (pb.VOTES, SKETCH),
    (pb.REVEALED, SKETCH),
    (pb.MASKED, UPDATE),
    (pb.VOTES, UPDATE),
    (pb.REVEALED, UPDATE),
)
"""What a UE sends in a session, in this order; it votes on survivors only where some have left before."""

_SETTING_UP = frozenset({pb.OPEN, pb.KEYS, pb.ROSTER, pb.SHARES, pb.SHARED, pb.SITS_OUT, pb.COMPLAINT})
_VOTING = frozenset({pb.VOTES, pb.VOTED})
"""On a list of survivors, or of no sum: on that of the members."""
_MEANING = b"hpfl.tier.v1 secure sum\0"


@dataclass(frozen=True)
class SecureStep:
    """One step: its kind, the attempt and sum it is about, and what it says by UE, or to all."""

    kind: int
    attempt: bytes
    sum: str
    entries: Mapping[int, bytes]
    agreed: bytes = b""


def step_body(
    kind: int,
    attempt: bytes,
    entries: Mapping[int, bytes] | Iterable[int] = (),
    *,
    of: str = "",
    agreed: bytes = b"",
) -> dict[str, Any]:
    """The body of a frame: `encode(tag, **step_body(pb.VOTES, attempt, votes, of="sketch"))`; or UEs alone."""
    number = sorted(entries)
    data = [entries[one] for one in number] if isinstance(entries, Mapping) else []
    return {"secure": pb.SecureStep(step=kind, attempt=attempt, sum=of, number=number, data=data, agreed=agreed)}


def read_step(message: Any, members: Collection[int]) -> SecureStep:
    """A step that came, refused where it is about no UE of the cell, or not whole."""
    kind, number, data = message.step, list(message.number), list(message.data)
    if len(message.attempt) != ATTEMPT_BYTES:
        raise RefusedError("malformed", f"an attempt of {len(message.attempt)} bytes came, wanted {ATTEMPT_BYTES}")
    wanted = {""} if kind in _SETTING_UP else {"", SKETCH, UPDATE} if kind in _VOTING else {SKETCH, UPDATE}
    if kind not in pb.Secret.values() or kind == pb.SECRET_UNKNOWN or message.sum not in wanted:
        raise RefusedError("malformed", f"step {kind} of a sum {message.sum!r} came")
    if len(data) not in ({0, len(number)} if kind in {pb.SURVIVORS, pb.COMPLAINT} else {len(number)}):
        raise RefusedError("shape", f"a step came with {len(number)} UEs and {len(data)} entries")
    if number != sorted(set(number)) or not set(number) <= set(members):
        raise RefusedError("identity", f"a step came for {len(number)} UEs that are not this cell's, or not in order")
    entries = dict(zip(number, data, strict=True)) if data else dict.fromkeys(number, b"")
    return SecureStep(kind, message.attempt, message.sum, entries, message.agreed)


def alone(step: SecureStep, number: int) -> bytes:
    """What a step says of its speaker, and of nobody else."""
    if set(step.entries) != {number}:
        raise RefusedError("identity", f"UE {number} speaks for {len(step.entries)} UEs of its cell")
    return step.entries[number]


def bits_sent(bits: int) -> int:
    """Bits of a word on the wire: whole bytes, which are quick to take apart, unless that is an eighth more."""
    whole = 8 * -(-bits // 8)
    return whole if 8 * whole <= 9 * bits else bits


def context_of(tag: Tag, *, fingerprint: str, edge: str, attempt: bytes, agreed: bytes) -> bytes:
    """What all members of a session must agree on, as a digest: run, model, experiment, edge, attempt, scales."""
    digest = hashlib.sha256(_MEANING)
    numbers = tag.base_round.to_bytes(8, "little") + tag.edge_round.to_bytes(4, "little")
    for part in (tag.run.encode(), numbers, tag.base, fingerprint.encode(), edge.encode(), attempt, agreed):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
