"""How messages look on the wire: tagged protobuf frames, and vectors as raw little-endian bytes in 1 MB chunks."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from hpfl.arrays import FloatArray
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.vector_frame import VectorFrame, vector_frame

VERSION = 4
CHUNK_BYTES = 2**20
MAX_FRAME_BYTES = 2 * CHUNK_BYTES
"""A chunk, and as much again for a head that lists the UEs of an edge."""

DIGEST_BYTES = 16
METHOD = "/hpfl.tier.v1.Tier/Attach"

Vector = NDArray[Any]
Content = bytes | memoryview
"""Bytes of a vector, as they came."""

_TYPES: dict[int, np.dtype[Any]] = {
    pb.FLOAT32: np.dtype("<f4"),
    pb.FLOAT64: np.dtype("<f8"),
    pb.BYTES: np.dtype("u1"),
}
_BEGIN = (pb.Frame.BEGIN_FIELD_NUMBER, pb.Begin.DATA_FIELD_NUMBER)
_CHUNK = (pb.Frame.CHUNK_FIELD_NUMBER, pb.Chunk.DATA_FIELD_NUMBER)
_DATA_FIELDS = dict((_BEGIN, _CHUNK))
_CODES = {dtype: code for code, dtype in _TYPES.items()}


@dataclass(frozen=True, kw_only=True)
class Tag:
    """Which run and round a message belongs to, and the model it is about; every message carries one."""

    run: str = ""
    round: int = 0
    base_round: int = 0
    node: str = ""
    base: bytes = b""
    edge_round: int = 0

    def by(self, node: str) -> "Tag":
        """The same tag, spoken by another node."""
        return replace(self, node=node)

    def about_same_model(self, other: "Tag") -> bool:
        """Whether both are about the same edge round on the same model of the same run."""
        mine = (self.run, self.base_round, self.base, self.edge_round)
        return mine == (other.run, other.base_round, other.base, other.edge_round)

    def supersedes(self, other: "Tag") -> bool:
        """Whether an order with this tag is news to who carries out the other: of a later round, or another model."""
        return self.round > other.round or not self.about_same_model(other)


@dataclass(frozen=True)
class VectorSpec:
    """What a vector must look like to be received at all."""

    length: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of one such vector."""
        return self.length * self.dtype.itemsize


def digest_of(vector: Vector) -> bytes:
    """The name of a model: BLAKE2b of its bytes."""
    return hashlib.blake2b(np.ascontiguousarray(vector).data, digest_size=DIGEST_BYTES).digest()


def encode(tag: Tag, **body: Any) -> bytes:
    """One frame with one body: `encode(tag, hello=pb.Hello(...))`."""
    data: bytes = pb.Frame(tag=pb.Tag(**vars(tag)), **body).SerializeToString()
    return data


def decode(data: bytes) -> tuple[Tag, Any]:
    """Tag and frame, or a refusal; protobuf bounds every read, and nothing in a frame is executed."""
    try:
        frame = pb.Frame.FromString(data)
    except DecodeError:
        raise RefusedError("malformed", f"{len(data)} bytes came that are no frame") from None
    return _tag_of(frame), frame


def decode_whole(data: bytes) -> tuple[Tag, Any, Content]:
    """Tag, frame and, of a vector's frame, the content, which is not copied and may be missing in the frame itself."""
    parts = vector_frame(data, _DATA_FIELDS)
    if parts is not None:
        with suppress(DecodeError):  # it is decoded as a whole below, and refused
            frame = _with_head(parts)
            return _tag_of(frame), frame, parts.data
    tag, frame = decode(data)
    body = frame.WhichOneof("body")
    return tag, frame, getattr(frame, body).data if body in {"begin", "chunk"} else b""


def _with_head(parts: VectorFrame) -> Any:
    """A frame without its content."""
    frame = pb.Frame(tag=pb.Tag.FromString(parts.tag))
    if parts.body == pb.Frame.BEGIN_FIELD_NUMBER:
        frame.begin.CopyFrom(pb.Begin.FromString(parts.head))
        frame.begin.SetInParent()
    else:
        frame.chunk.CopyFrom(pb.Chunk.FromString(parts.head))
        frame.chunk.SetInParent()
    return frame


def _tag_of(frame: Any) -> Tag:
    """The tag of a frame that has a body."""
    if frame.WhichOneof("body") is None:
        raise RefusedError("malformed", "a frame came without a body")
    if len(frame.tag.base) not in {0, DIGEST_BYTES}:
        raise RefusedError("malformed", f"a digest of {len(frame.tag.base)} bytes came, wanted {DIGEST_BYTES}")
    tag = frame.tag
    return Tag(
        run=tag.run, round=tag.round, base_round=tag.base_round, node=tag.node, base=tag.base, edge_round=tag.edge_round
    )


def vector_frames(
    tag: Tag, vector: Vector, *, purpose: int, chunk_bytes: int = CHUNK_BYTES, **head: Any
) -> Iterator[bytes]:
    """The frames of a vector: a head with the first bytes, then chunks in order."""
    yield head_frame(tag, vector, purpose=purpose, chunk_bytes=chunk_bytes, **head)
    yield from chunk_frames(tag, vector, chunk_bytes=chunk_bytes)


def head_frame(tag: Tag, vector: Vector, *, purpose: int, chunk_bytes: int = CHUNK_BYTES, **head: Any) -> bytes:
    """The first frame of a vector, which alone says what it is for."""
    code = _CODES[vector.dtype.newbyteorder("<")]
    begin = pb.Begin(purpose=purpose, type=code, length=vector.size, **head)
    return _with_data(tag, _BEGIN, begin, _content(vector)[:chunk_bytes])


def chunk_frames(tag: Tag, vector: Vector, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The frames after the first, whatever the vector is for."""
    content = _content(vector)
    for offset in range(chunk_bytes, len(content), chunk_bytes):
        yield _with_data(tag, _CHUNK, pb.Chunk(offset=offset), content[offset : offset + chunk_bytes])


def _content(vector: Vector) -> memoryview:
    return np.ascontiguousarray(vector).data.cast("B")


def _with_data(tag: Tag, body: tuple[int, int], head: Any, data: memoryview) -> bytes:
    """The bytes protobuf would make of a frame with such a body, its `data` copied once instead of three times."""
    field, data_field = body
    front: bytes = head.SerializeToString() + _length_delimited(data_field, len(data))
    frame: bytes = pb.Frame(tag=pb.Tag(**vars(tag))).SerializeToString()
    return b"".join((frame, _length_delimited(field, len(front) + len(data)), front, data))


def _length_delimited(field: int, size: int) -> bytes:
    """The key and the length before such a field (protobuf encoding, wire type 2)."""
    key, length = field << 3 | 2, bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes((key, *length, size))


class Arrival:
    """One vector on its way in: memory is set aside only for what was expected, and chunks come in order or not."""

    def __init__(self, tag: Tag, begin: Any, spec: VectorSpec, content: Content | None = None) -> None:
        dtype = _TYPES.get(begin.type)
        if dtype != spec.dtype:
            raise RefusedError("type", f"a vector of {dtype or 'unknown type'} came, wanted {spec.dtype}")
        if begin.length != spec.length:
            raise RefusedError("shape", f"a vector of {begin.length} entries came, wanted {spec.length}")
        self.tag = tag
        self.begin = begin
        self._spec = spec
        self._content = np.empty(spec.nbytes, dtype=np.uint8)  # nobody sees it before it is complete
        self._filled = 0
        self._take(begin.data if content is None else content)
        begin.ClearField("data")

    @property
    def is_complete(self) -> bool:
        """Whether every byte is there."""
        return self._filled == len(self._content)

    def add(self, tag: Tag, chunk: Any, content: Content | None = None) -> None:
        """The next chunk; one from elsewhere spoils the whole vector."""
        if tag != self.tag:
            raise RefusedError("order", f"a chunk of round {tag.round} came inside a vector of round {self.tag.round}")
        if chunk.offset != self._filled:
            raise RefusedError("order", f"the chunk at byte {chunk.offset} came where byte {self._filled} was wanted")
        self._take(chunk.data if content is None else content)

    def vector(self) -> Vector:
        """The vector, in native byte order."""
        return self._content.view(self._spec.dtype).astype(self._spec.dtype.newbyteorder("="), copy=False)

    def _take(self, data: Content) -> None:
        end = self._filled + len(data)
        if end > len(self._content) or (not data and len(self._content)):
            raise RefusedError("size", f"{end} bytes of a vector came, wanted {len(self._content)} in whole chunks")
        self._content[self._filled : end] = np.frombuffer(data, dtype=np.uint8)
        self._filled = end


def numbers(values: FloatArray) -> bytes:
    """Numbers as little-endian float64 bytes."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def as_numbers(data: bytes, *, count: int) -> FloatArray:
    """`count` numbers from their bytes."""
    if len(data) != 8 * count:
        raise RefusedError("shape", f"{len(data)} bytes came for {count} numbers of 8 bytes")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
