"""A vector's bytes are found inside its frame where protobuf finds them, or not at all."""

import numpy as np
import pytest

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.inbox import Inbox
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.vector_frame import vector_frame
from hpfl.deployment.wire import _DATA_FIELDS, Tag, VectorSpec, decode, decode_whole, head_frame, vector_frames

TAG = Tag(run="run-1", round=7, base_round=6, node="ue-3", base=bytes(range(16)), edge_round=1)
UPDATE = np.random.default_rng(0).normal(size=5000).astype(np.float32)
HEAD = {"weight": 3.5, "num_samples": 300, "ue": [3, 700], "took_s": [0.1, 2.0], "since": b"s" * 16}


def whole(data):
    """What protobuf alone makes of a frame: tag, frame without data, data; or the rule by which it is refused."""
    try:
        tag, frame = decode(data)
    except RefusedError as error:
        return error.code
    body = frame.WhichOneof("body")
    content = b""
    if body in {"begin", "chunk"}:
        content = bytes(getattr(frame, body).data)
        getattr(frame, body).ClearField("data")
    return tag, frame, content


def cut(data):
    """The same by way of `decode_whole`."""
    try:
        tag, frame, content = decode_whole(data)
    except RefusedError as error:
        return error.code
    body = frame.WhichOneof("body")
    if body in {"begin", "chunk"}:
        getattr(frame, body).ClearField("data")
    return tag, frame, bytes(content)


def frames():
    yield from vector_frames(TAG, UPDATE, purpose=pb.UPDATE, chunk_bytes=6000, **HEAD)
    yield head_frame(TAG, UPDATE, purpose=pb.TRAIN, step=[pb.Step(coding=1, factor=[0.5], to=b"t" * 16)])
    yield head_frame(Tag(), UPDATE, purpose=pb.TRAIN)


def test_frames_of_vectors_are_cut_without_a_copy_into_what_protobuf_makes_of_them():
    for data in frames():
        if len(data) > 4096:
            parts = vector_frame(data, _DATA_FIELDS)
            assert parts is not None
            assert parts.data.obj is data  # the very bytes that came
        assert cut(data) == whole(data)


def test_whatever_is_done_to_a_frame_it_is_read_or_refused_as_protobuf_would():
    draw = np.random.default_rng(1)
    seen = set()
    for data in frames():
        for _ in range(300):
            spoiled = bytearray(data)
            for _ in range(draw.integers(1, 4)):
                at = int(draw.integers(min(len(spoiled), 140)))
                match draw.integers(4):
                    case 0:
                        spoiled[at] = draw.integers(256)
                    case 1:
                        del spoiled[at]
                    case 2:
                        spoiled.insert(at, int(draw.integers(256)))
                    case _:
                        spoiled = spoiled[: max(int(draw.integers(len(spoiled))), 1)]
            came = bytes(spoiled)
            assert cut(came) == whole(came)
            seen.add((isinstance(whole(came), str), vector_frame(came, _DATA_FIELDS) is None))
    assert seen >= {(True, True), (False, True), (False, False)}  # refused, left to protobuf, and cut


@pytest.mark.parametrize("more", [b"\x22\x02\x08\x01", b"\x0a\x00", b"\xff"])
def test_a_frame_with_something_after_its_body_is_left_to_protobuf(more):
    data = head_frame(TAG, UPDATE, purpose=pb.UPDATE) + more
    assert vector_frame(data, _DATA_FIELDS) is None
    assert cut(data) == whole(data)


def test_a_vector_that_has_arrived_is_no_view_of_the_frame():
    """It is written to, and must not keep the frame alive."""
    data = head_frame(TAG, UPDATE, purpose=pb.UPDATE, **HEAD)
    _, arrival = Inbox(lambda tag, begin: VectorSpec(5000, np.dtype("<f4"))).feed(data)
    vector = arrival.vector()
    assert vector.flags.writeable
    assert np.array_equal(vector, UPDATE)
