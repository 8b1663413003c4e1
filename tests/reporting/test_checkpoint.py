import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reporting_runs import state

from hpfl.reporting.checkpoint import CheckpointError, load_latest, save_checkpoint
from hpfl.training.state import TrainState

IN_FOLDERS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def assert_same(left: TrainState, right: TrainState) -> None:
    assert (left.round, left.time_s, left.memory) == (right.round, right.time_s, right.memory)
    for name in ("params", "pending"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    arrays = [(getattr(left, n), getattr(right, n)) for n in ("base_round", "awaiting", "importance", "joules")]
    assert list(left.clock) == list(right.clock)
    for one, other in [*arrays, *((left.clock[key], right.clock[key]) for key in left.clock)]:
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def loaded_state(folder: Path, fingerprint: str = "f") -> TrainState:
    found = load_latest(folder, fingerprint=fingerprint).state
    assert found is not None
    return found


def test_a_state_comes_back_bit_by_bit(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, state(), fingerprint="f")
    assert_same(loaded_state(tmp_path), state())


@IN_FOLDERS
@given(
    memory=st.dictionaries(st.text(), JSON, max_size=4),
    time_s=st.floats(allow_nan=False),
    dtype=st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "float32", "float64"]),
    shape=st.sampled_from([(), (0,), (3,), (2, 3), (2, 0, 3)]),
)
def test_any_memory_clock_and_time_come_back_exactly(
    tmp_path: Path, memory: dict[str, Any], time_s: float, dtype: str, shape: tuple[int, ...]
) -> None:
    clock = {"a": np.arange(24)[: int(np.prod(shape))].reshape(shape).astype(dtype)}
    before = state().but(memory=memory, time_s=time_s, clock=clock)
    save_checkpoint(tmp_path, before, fingerprint="f")
    assert_same(loaded_state(tmp_path), before)


def test_what_ues_keep_and_rules_remember_comes_back_exactly(tmp_path: Path) -> None:
    rows = torch.arange(6, dtype=torch.float32).reshape(3, 2) / 7
    velocity = torch.tensor([1 / 3, -0.0], dtype=torch.float64)
    rule = {"velocity": velocity, "steps": 3, "seen": {"last": np.arange(2), "why": None, "shares": [0.5, 1 / 3]}}
    before = state().but(
        kept={"method": rows, "method_before": rows.T}, cloud_rule=rule, edge_rules={"now": {"3": rule, "4": {}}}
    )
    save_checkpoint(tmp_path, before, fingerprint="f")
    after = loaded_state(tmp_path)
    assert_same(after, before)
    assert torch.equal(after.kept["method"], rows)
    assert torch.equal(after.kept["method_before"], rows.T)
    for one in (after.cloud_rule, after.edge_rules["now"]["3"]):
        assert (one["velocity"].dtype, one["velocity"].numpy().tobytes()) == (torch.float64, velocity.numpy().tobytes())
        assert (one["steps"], one["seen"]["why"], one["seen"]["shares"]) == (3, None, [0.5, 1 / 3])
        assert one["seen"]["last"].tolist() == [0, 1]
    assert after.edge_rules["now"]["4"] == {}


def test_where_nothing_is_kept_a_checkpoint_is_what_it_always_was(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, state(), fingerprint="f")
    with safetensors.safe_open(path, framework="pt") as file:
        names, header = set(file.keys()), json.loads(file.metadata()["hpfl"])
    old = ["round", "time_s", "params", "pending", "base_round", "awaiting", "importance", "joules", "memory", "clock"]
    assert list(header["fields"]) == old
    assert {name.split("/")[0] for name in names} <= set(old)
    after = loaded_state(tmp_path)
    assert (after.kept, after.cloud_rule, after.edge_rules) == ({}, {}, {})


def test_parts_of_a_rule_that_would_be_stored_under_one_name_are_refused(tmp_path: Path) -> None:
    rule = {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}}
    with pytest.raises(CheckpointError, match="two parts are called cloud_rule/a/b; wanted names without /"):
        save_checkpoint(tmp_path, state().but(cloud_rule=rule), fingerprint="f")


def test_subnormals_signed_zeros_and_infinities_keep_their_bits(tmp_path: Path) -> None:
    odd = np.array([5e-324, -0.0, np.inf, np.nan, 1 / 3])
    before = state().but(joules=odd, params=torch.from_numpy(odd))
    save_checkpoint(tmp_path, before, fingerprint="f")
    after = loaded_state(tmp_path)
    assert after.joules.tobytes() == odd.tobytes()
    assert after.params.numpy().tobytes() == odd.tobytes()


def test_views_of_one_storage_are_stored_whole(tmp_path: Path) -> None:
    params = torch.arange(6.0)
    frozen = np.arange(8.0)[::2]
    frozen.flags.writeable = False
    before = state().but(params=params[1:5], pending=params.reshape(2, 3).T, joules=frozen)
    save_checkpoint(tmp_path, before, fingerprint="f")
    assert_same(loaded_state(tmp_path), before)


def test_a_loaded_state_can_be_written_to(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, state(), fingerprint="f")
    before = path.read_bytes()
    after = loaded_state(tmp_path)
    after.params.add_(1)
    after.joules[:] = 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("bad", [(1, 2), {1: 2.0}, np.ones(2), {"a"}])
def test_memory_that_json_would_change_is_refused_by_name(tmp_path: Path, bad: object) -> None:
    with pytest.raises(CheckpointError, match=r"memory\['x'\]\[1\]"):
        save_checkpoint(tmp_path, state().but(memory={"x": [0, bad]}), fingerprint="f")
    assert list(tmp_path.iterdir()) == []


@settings(IN_FOLDERS, max_examples=300)
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: Path, where: float, bit: int) -> None:
    folder = tmp_path / os.urandom(6).hex()
    save_checkpoint(folder, state(10), fingerprint="f")
    path = save_checkpoint(folder, state(20, seed=1), fingerprint="f")
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    path.write_bytes(content)
    found = load_latest(folder, fingerprint="f")
    assert found.state is not None
    assert_same(found.state, state(10) if found.notes else state(20, seed=1))
    assert not found.notes or path.name in found.notes[0]


@IN_FOLDERS
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_truncated_checkpoint_is_named_and_the_previous_one_used(tmp_path: Path, where: float) -> None:
    folder = tmp_path / os.urandom(6).hex()
    save_checkpoint(folder, state(10), fingerprint="f")
    path = save_checkpoint(folder, state(20), fingerprint="f")
    content = path.read_bytes()
    path.write_bytes(content[: int(where * len(content))])
    found = load_latest(folder, fingerprint="f")
    assert found.state is not None
    assert_same(found.state, state(10))
    assert found.notes[0].startswith("round-00000020.safetensors is damaged (")


def test_with_every_checkpoint_damaged_the_error_names_each(tmp_path: Path) -> None:
    for number in (1, 2):
        save_checkpoint(tmp_path, state(number), fingerprint="f").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"round-00000002\.safetensors.*round-00000001\.safetensors"):
        load_latest(tmp_path, fingerprint="f")


def test_nothing_saved_means_nothing_to_continue(tmp_path: Path) -> None:
    assert load_latest(tmp_path / "none", fingerprint="f").state is None


def test_another_configuration_is_refused_rather_than_passed_over(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, state(), fingerprint="one")
    with pytest.raises(CheckpointError, match=r"round-00000010\.safetensors was written with another configuration"):
        load_latest(tmp_path, fingerprint="two")


def test_a_checkpoint_beyond_the_records_is_passed_over(tmp_path: Path) -> None:
    for number in (10, 20):
        save_checkpoint(tmp_path, state(number), fingerprint="f")
    found = load_latest(tmp_path, fingerprint="f", fits=lambda number, marks: "it is late" if number > 19 else "")
    assert found.state is not None
    assert found.state.round == 10
    assert found.notes == ("round-00000020.safetensors was passed over: it is late",)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(1, 6):
        save_checkpoint(tmp_path, state(number), fingerprint="f", keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-00000004.safetensors", "round-00000005.safetensors"]


def test_a_rewound_run_replaces_the_later_checkpoint_it_could_not_use(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, state(10), fingerprint="f")
    save_checkpoint(tmp_path, state(20), fingerprint="f").write_bytes(b"damaged")
    save_checkpoint(tmp_path, state(15), fingerprint="f")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-00000010.safetensors", "round-00000015.safetensors"]


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, state(10), fingerprint="f")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tmp_path, state(20), fingerprint="f")
    assert [p.name for p in tmp_path.iterdir()] == ["round-00000010.safetensors"]
    assert_same(loaded_state(tmp_path), state(10))
