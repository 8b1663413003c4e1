"""Where the bytes of a vector lie inside a frame of the form that nodes send, so that they are copied once."""

from typing import NamedTuple

_LEAST_BYTES = 4096
"""Shorter frames are parsed as quickly as they are looked at."""
_TAG_KEY = 1 << 3 | 2
_LONGEST_VARINT = 5
_FIXED_BYTES = {1: 8, 5: 4}


class VectorFrame(NamedTuple):
    """The bytes of a frame's tag, the number of its body's field, the body without its `data`, and the `data`."""

    tag: bytes
    body: int
    head: bytes
    data: memoryview


class _OtherFormError(Exception):
    """A frame is not of that form; protobuf reads it, or refuses it."""


def vector_frame(frame: bytes, data_fields: dict[int, int]) -> VectorFrame | None:
    """The parts of a frame that is a tag and a body whose last field is its `data`; None of any other.

    `data_fields` are the numbers of the fields called `data`, by the number of the body's own field.
    """
    if len(frame) < _LEAST_BYTES:
        return None
    try:
        return _parts(frame, data_fields)
    except (_OtherFormError, IndexError):
        return None


def _parts(frame: bytes, data_fields: dict[int, int]) -> VectorFrame:
    tag_begins, tag_ends = _field(frame, 0, _TAG_KEY)
    key, _ = _varint(frame, tag_ends)
    body = key >> 3
    if body not in data_fields:
        raise _OtherFormError
    begins, ends = _field(frame, tag_ends, body << 3 | 2)
    if ends != len(frame):
        raise _OtherFormError
    at, wanted = begins, data_fields[body] << 3 | 2
    while (key := _varint(frame, at)[0]) != wanted:
        at = _after(frame, at)
    data_begins, data_ends = _field(frame, at, wanted)
    if data_ends != ends:
        raise _OtherFormError
    return VectorFrame(frame[tag_begins:tag_ends], body, frame[begins:at], memoryview(frame)[data_begins:])


def _field(frame: bytes, at: int, wanted: int) -> tuple[int, int]:
    """Begin and end of the content of a length-delimited field with the `wanted` key."""
    key, at = _varint(frame, at)
    size, at = _varint(frame, at)
    if key != wanted or at + size > len(frame):
        raise _OtherFormError
    return at, at + size


def _after(frame: bytes, at: int) -> int:
    """Where the field after the one at this place begins."""
    key, at = _varint(frame, at)
    kind = key & 7
    if kind == 0:
        return _varint(frame, at)[1]
    if kind == 2:
        size, at = _varint(frame, at)
        return at + size
    if kind not in _FIXED_BYTES:
        raise _OtherFormError
    return at + _FIXED_BYTES[kind]


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    """A number and the place after it; one longer than any that is sent here is left to protobuf."""
    value = 0
    for count in range(_LONGEST_VARINT):
        byte = frame[at + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, at + count + 1
    raise _OtherFormError
