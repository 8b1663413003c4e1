"""A UE uncovers a sum of an update with one list of UEs: under any label, and after it was started again."""

from dataclasses import replace

import pytest

from hpfl.deployment import secure_history
from hpfl.deployment.secure_history import HISTORY_FILE, SumHistory
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.wire import Tag
from hpfl.secrecy import SecrecyError

TAG = Tag(run="run-1", round=5, base_round=3, base=b"\x01" * 32)
BEFORE = "the update was summed before with others"


@pytest.fixture
def folder(tmp_path):
    SumHistory(tmp_path).note(TAG, "update", {0, 1, 2})
    return tmp_path


@pytest.mark.parametrize("label", [{}, {"base_round": 4}, {"round": 9}, {"edge_round": 1}, {"node": "edge-9"}])
def test_a_ue_that_was_started_again_refuses_another_list_whatever_the_edge_calls_the_round(folder, label):
    again, tag = SumHistory(folder), replace(TAG, **label)
    with pytest.raises(SecrecyError, match=BEFORE):
        again.check(tag, "update", {0, 1, 3})
    again.check(tag, "update", frozenset({2, 1, 0}))


def test_another_model_another_run_and_another_sum_are_other_sums(folder):
    again = SumHistory(folder)
    again.check(TAG, "sketch", {0, 1, 3})
    again.check(replace(TAG, base=b"\x02" * 32), "update", {0, 1, 3})
    again.check(replace(TAG, run="run-2"), "update", {0, 1, 3})


@pytest.mark.parametrize("label", [{}, {"base_round": 4, "edge_round": 1}])
@pytest.mark.parametrize(("first", "then"), [("sketch", "update"), ("update", "sketch")])
def test_where_leavers_are_refused_sketch_and_update_are_of_the_same_ues_in_any_session(tmp_path, label, first, then):
    SumHistory(tmp_path, alike=True).note(TAG, first, {0, 1, 2, 3})
    again = SumHistory(tmp_path, alike=True)
    with pytest.raises(SecrecyError, match="summed before with others"):
        again.check(replace(TAG, **label), then, {0, 1, 2})
    again.check(replace(TAG, **label), then, {0, 1, 2, 3})


@pytest.mark.parametrize("damage", [b"\xff\n", b"0123", b"0" * 32 + b" " + b"0" * 31 + b"\n", b"\n\n"])
def test_a_damaged_line_is_skipped_and_what_follows_it_is_kept(folder, damage):
    path = folder / HISTORY_FILE
    path.write_bytes(damage[:1] + b"\n" + path.read_bytes() + damage)
    again = SumHistory(folder)
    again.note(TAG, "sketch", {0, 1, 2})
    last = SumHistory(folder)
    for of in ("update", "sketch"):
        with pytest.raises(SecrecyError, match="summed before"):
            last.check(TAG, of, {0, 1})
    assert len(path.read_bytes().splitlines()) == 2


def test_the_last_sums_alone_are_remembered_and_the_file_stays_short(tmp_path, monkeypatch):
    monkeypatch.setattr(secure_history, "_REMEMBERED", 8)
    history = SumHistory(tmp_path)
    tags = [replace(TAG, base=bytes([number]) * 32) for number in range(20)]
    for tag in tags:
        history.note(tag, "update", {0, 1, 2})
        history.note(tag, "update", {0, 1, 2})
    assert len((tmp_path / HISTORY_FILE).read_bytes().splitlines()) == 20
    again = SumHistory(tmp_path)
    assert len((tmp_path / HISTORY_FILE).read_bytes().splitlines()) == 8
    for tag in tags[-8:]:
        with pytest.raises(SecrecyError, match="summed before"):
            again.check(tag, "update", {0, 1})
    again.check(tags[11], "update", {0, 1})


def test_what_cannot_be_written_down_is_not_uncovered(tmp_path):
    (tmp_path / "state").write_text("a file where a folder should be")
    with pytest.raises((SecrecyError, SettingsError), match="cannot be"):
        SumHistory(tmp_path / "state").note(TAG, "update", {0, 1, 2})


def test_sums_that_are_expected_are_written_ahead_and_bind_once_uncovered_or_once_the_process_has_ended(tmp_path):
    history, path = SumHistory(tmp_path), tmp_path / HISTORY_FILE
    history.expect(TAG, ("sketch", "update"), {0, 1, 2, 3})
    written = path.read_bytes()
    assert len(written.splitlines()) == 2
    history.check(TAG, "sketch", {0, 1, 2})  # nothing is uncovered yet
    with pytest.raises(SecrecyError, match="the sketch was summed before with others"):
        SumHistory(tmp_path).check(TAG, "sketch", {0, 1, 2})  # who is started again cannot know
    history.note(TAG, "update", {0, 1, 2, 3})
    assert path.read_bytes() == written
    with pytest.raises(SecrecyError, match=BEFORE):
        history.check(TAG, "update", {0, 1, 2})
    history.note(TAG, "sketch", {0, 1, 2})
    again = SumHistory(tmp_path)
    again.check(TAG, "sketch", {0, 1, 2})
    with pytest.raises(SecrecyError, match="summed before"):
        again.check(TAG, "sketch", {0, 1, 2, 3})


def test_what_was_uncovered_is_not_expected_otherwise(folder):
    history = SumHistory(folder)
    history.expect(TAG, ("sketch", "update"), {0, 1, 2, 3})
    assert not history.has(TAG, "update", {0, 1, 2, 3})
    assert history.has(TAG, "update", {0, 1, 2})
    assert history.has(TAG, "sketch", {0, 1, 2, 3})
