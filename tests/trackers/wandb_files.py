"""Reads what Weights & Biases wrote offline: records of protobuf in blocks, as LevelDB's log has them."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

_HEAD, _BLOCK, _CHUNK = 7, 32768, 7
_WHOLE, _LAST = 1, 4


def records(path: Path) -> Iterator[object]:
    """Every record of a `.wandb` file."""
    from wandb.proto.wandb_internal_pb2 import Record

    content = path.read_bytes()
    assert content[:4] == b":W&B"
    place, parts = _HEAD, []
    while place < len(content):
        room = _BLOCK - place % _BLOCK
        if room < _CHUNK:
            place += room
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + _CHUNK])
        parts.append(content[place + _CHUNK : place + _CHUNK + length])
        place += _CHUNK + length
        if kind in {_WHOLE, _LAST}:
            yield Record.FromString(b"".join(parts))
            parts = []


def histories(path: Path) -> list[dict[str, float]]:
    """What was logged, step by step."""
    return [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records(path)
        if record.HasField("history")
    ]
