import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment import wire
from hpfl.deployment.averaging import RunningMean
from hpfl.deployment.checks import Bounds, check_same_model, check_sketch, check_speaker, check_update, check_weight
from hpfl.deployment.refusal import RefusedError
from hpfl.deployment.wire import (
    CHUNK_BYTES,
    MAX_FRAME_BYTES,
    Arrival,
    Tag,
    VectorSpec,
    as_numbers,
    decode,
    digest_of,
    encode,
    numbers,
    vector_frames,
)

TAG = Tag(run="r", round=4, base_round=3, node="ue-1", base=b"d" * 16)
BOUNDS = Bounds(update_norm=100.0, num_samples=1000)


def received(frames, spec):
    arrival = None
    for data in frames:
        tag, frame = decode(data)
        if arrival is None:
            arrival = Arrival(tag, frame.begin, spec)
        else:
            arrival.add(tag, frame.chunk)
    return arrival


def refused(code, call, *args, **kwargs):
    with pytest.raises(RefusedError) as error:
        call(*args, **kwargs)
    assert error.value.code == code
    return error.value.reason


@settings(deadline=None, max_examples=40)
@given(
    length=st.integers(1, 3000),
    chunk=st.integers(7, 4096),
    dtype=st.sampled_from(["<f4", "<f8"]),
    seed=st.integers(0, 2**32),
)
def test_a_vector_arrives_as_it_was_sent_whatever_the_chunks(length, chunk, dtype, seed):
    vector = np.random.default_rng(seed).normal(size=length).astype(dtype)
    frames = list(vector_frames(TAG, vector, purpose=pb.UPDATE, chunk_bytes=chunk, weight=2.5))
    arrival = received(frames, VectorSpec(length, np.dtype(dtype)))
    assert arrival.is_complete
    assert arrival.begin.weight == 2.5
    assert digest_of(arrival.vector()) == digest_of(vector)


def test_a_forty_megabyte_model_travels_in_frames_of_at_most_two():
    vector = np.arange(10_000_000, dtype=np.float32)
    frames = list(vector_frames(TAG, vector, purpose=pb.TRAIN))
    assert len(frames) == -(-vector.nbytes // CHUNK_BYTES)
    assert max(map(len, frames)) < MAX_FRAME_BYTES
    np.testing.assert_array_equal(received(frames, VectorSpec(vector.size, vector.dtype)).vector(), vector)


def test_every_frame_carries_run_round_base_round_node_and_model():
    for data in vector_frames(TAG, np.zeros(100, np.float32), purpose=pb.UPDATE, chunk_bytes=64):
        assert decode(data)[0] == TAG
    assert decode(encode(TAG, request=pb.Request()))[0] == TAG


@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 70_000), chunk=st.integers(1, 300_000), ues=st.lists(st.integers(0, 999), max_size=300))
def test_frames_are_what_protobuf_itself_would_write(length, chunk, ues):
    vector = np.arange(length, dtype=np.float32)
    head = {"purpose": pb.UPDATE, "weight": 2.5, "num_samples": 9, "ue": ues}
    first, *rest = list(vector_frames(TAG, vector, chunk_bytes=max(chunk, length * 4 // 5), **head))
    content = decode(first)[1].begin
    expected = pb.Begin(type=pb.FLOAT32, length=length, data=content.data, **head)
    assert pb.Frame.FromString(first) == pb.Frame(tag=pb.Tag(**vars(TAG)), begin=expected)
    assert content.data + b"".join(decode(one)[1].chunk.data for one in rest) == vector.tobytes()


def frames_of_three():
    return list(vector_frames(TAG, np.arange(30, dtype=np.float32), purpose=pb.UPDATE, chunk_bytes=40))


SPEC = VectorSpec(30, np.dtype("<f4"))


def test_swapped_chunks_are_refused():
    first, second, third = frames_of_three()
    assert "where byte 40 was wanted" in refused("order", received, [first, third, second], SPEC)


def test_a_repeated_chunk_is_refused():
    first, second, _ = frames_of_three()
    refused("order", received, [first, second, second], SPEC)


def test_a_chunk_of_another_round_is_refused():
    first, _, _ = frames_of_three()
    other = encode(Tag(**{**vars(TAG), "round": 5}), chunk=pb.Chunk(offset=40, data=b"x" * 40))
    refused("order", received, [first, other], SPEC)


def test_a_vector_of_the_wrong_shape_is_refused_before_memory_is_set_aside():
    begin = pb.Begin(purpose=pb.UPDATE, type=pb.FLOAT32, length=2**60, data=b"abcd")
    assert "wanted 30" in refused("shape", Arrival, TAG, begin, SPEC)


def test_a_vector_of_the_wrong_type_is_refused():
    refused("type", Arrival, TAG, pb.Begin(type=pb.FLOAT64, length=30, data=b"x" * 8), SPEC)
    refused("type", Arrival, TAG, pb.Begin(type=0, length=30, data=b"x" * 8), SPEC)


def test_more_bytes_than_announced_are_refused():
    refused("size", Arrival, TAG, pb.Begin(type=pb.FLOAT32, length=30, data=b"x" * 121), SPEC)
    refused("size", Arrival, TAG, pb.Begin(type=pb.FLOAT32, length=30, data=b""), SPEC)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_refused_or_read_but_never_crash(data):
    outcome = "read"
    try:
        decode(data)
    except RefusedError as error:
        outcome = error.code
    assert outcome in {"read", "malformed"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_update_with_a_number_that_is_not_finite_is_refused(value, dtype):
    update = np.zeros(70_000, dtype)
    update[69_999] = value
    refused("nonfinite", check_update, update, BOUNDS)


def test_an_update_beyond_the_norm_bound_is_refused():
    assert check_update(np.full(4, 50.0, np.float32), BOUNDS) == pytest.approx(10_000.0)
    refused("norm", check_update, np.full(4, 50.1, np.float32), BOUNDS)
    refused("norm", check_update, np.full(4, 3e38, np.float32), BOUNDS)


def test_samples_must_be_believable_and_weights_follow_from_them():
    check_weight(7.0, 7, wanted=7.0, bounds=BOUNDS)
    refused("samples", check_weight, 0.0, 0, wanted=0.0, bounds=BOUNDS)
    refused("samples", check_weight, 1.0, 1001, wanted=1.0, bounds=BOUNDS)
    refused("weight", check_weight, 8.0, 7, wanted=7.0, bounds=BOUNDS)
    refused("weight", check_weight, np.nan, 7, wanted=7.0, bounds=BOUNDS)


def test_stale_and_foreign_messages_are_refused():
    check_same_model(TAG, TAG, rounds=True)
    for change in ({"base_round": 2}, {"base": b"e" * 16}, {"edge_round": 1}, {"run": "s"}):
        refused("stale", check_same_model, Tag(**{**vars(TAG), **change}), TAG)
    refused("stale", check_same_model, Tag(**{**vars(TAG), "round": 5}), TAG, rounds=True)
    refused("identity", check_speaker, TAG, name="ue-2", run="r")
    refused("run", check_speaker, TAG, name="ue-1", run="another")


def test_a_sketch_must_have_its_width_and_finite_numbers():
    good = pb.Sketch(values=numbers(np.ones(4)), weight=1.0, num_samples=3, ue=[1], samples=[3])
    assert check_sketch(good, width=4, largest=2.0).values.tolist() == [1.0] * 4
    refused("shape", check_sketch, good, width=5, largest=2.0)
    bad = pb.Sketch(values=numbers(np.array([1, np.nan, 0, 0])), weight=1.0)
    refused("nonfinite", check_sketch, bad, width=4, largest=2.0)
    twice = pb.Sketch(values=numbers(np.ones(4)), weight=1.0, ue=[1, 1], samples=[3, 3])
    refused("shape", check_sketch, twice, width=4, largest=2.0)


def test_numbers_survive_their_bytes():
    values = np.array([1.5, -0.0, 1e300])
    np.testing.assert_array_equal(as_numbers(numbers(values), count=3), values)


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_a_running_mean_is_the_weighted_mean(count, seed):
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, 11)).astype(np.float32)
    weights = generator.integers(1, 50, size=count).astype(np.float64)
    mean = RunningMean(11)
    for vector, weight in zip(vectors, weights, strict=True):
        mean.add(vector, float(weight))
    np.testing.assert_allclose(
        mean.value(), np.average(vectors.astype(np.float64), axis=0, weights=weights), rtol=1e-12
    )
    assert (mean.weight, mean.count) == (weights.sum(), count)


def test_every_message_of_the_protocol_is_spoken():
    """A message nobody makes would be a part of the protocol for nothing."""
    code = "".join(path.read_text() for path in Path(wire.__file__).parent.glob("*.py"))
    assert set(pb.DESCRIPTOR.message_types_by_name) == set(re.findall(r"pb\.([A-Z][a-z]\w*)\(", code)) | {"Frame"}


def _as_written(text):
    """Fields by message, and numbers by enum, as a `.proto` file says: (name, number, kind, type)."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"oneof \w+ \{([^}]*)\}", r"\1", text)
    messages, enums = {}, {}
    for kind, name, body in re.findall(r"(message|enum) (\w+) \{([^}]*)\}", text):
        if kind == "enum":
            enums[name] = {value: int(number) for value, number in re.findall(r"(\w+) = (\d+);", body)}
        else:
            fields = re.findall(r"(?:(repeated|optional) )?(\w+) (\w+) = (\d+)", body)
            messages[name] = {(field, int(number), often, of) for often, of, field, number in fields}
    return messages, enums


def _as_compiled(descriptor):
    def type_of(field):
        kind = field.message_type or field.enum_type
        return kind.name if kind else FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()

    def often(field):
        alone = field.containing_oneof is not None and field.containing_oneof.name.startswith("_")
        return "repeated" if field.is_repeated else "optional" if alone else ""

    messages = {
        name: {(field.name, field.number, often(field), type_of(field)) for field in message.fields}
        for name, message in descriptor.message_types_by_name.items()
    }
    enums = {
        name: {value.name: value.number for value in enum.values}
        for name, enum in descriptor.enum_types_by_name.items()
    }
    return messages, enums


def test_the_messages_code_says_what_its_source_says():
    source = Path(pb.__file__).with_name("tier.proto").read_text(encoding="utf-8")
    assert _as_compiled(pb.DESCRIPTOR) == _as_written(source)


def test_the_messages_code_was_made_by_the_oldest_protobuf_that_is_asked_for():
    generated = Path(pb.__file__).read_text(encoding="utf-8")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    made = re.search(r"^# Protobuf Python Version: ([\d.]+)$", generated, re.MULTILINE).group(1)
    wanted = [one for one in project["project"]["optional-dependencies"]["deploy"] if one.startswith("protobuf")]
    assert wanted == [f"protobuf>={made},<{int(made.split('.')[0]) + 2}"]
