"""What a UE keeps on its own disk: across restarts, and back to earlier rounds with its cloud."""

import logging
import random

import pytest
import torch

from hpfl.deployment.own_store import OwnStore
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.unsent import Unsent
from hpfl.deployment.wire import Tag
from hpfl.learning import Kept


def tag(base_round, edge_round=0, run="run-1"):
    return Tag(run=run, round=base_round, base_round=base_round, edge_round=edge_round)


def kept(value):
    return Kept(torch.full((3,), float(value)), None)


def number(found):
    return None if found is None else float(found.method[0])


@pytest.fixture
def store(tmp_path):
    return OwnStore(tmp_path / "state", (3, 0))


def test_a_ue_that_begins_has_kept_nothing(store):
    assert store.before(tag(0)) is None
    assert store.newest() is None


def test_what_was_kept_outlives_the_process(tmp_path):
    OwnStore(tmp_path / "state", (3, 2)).put(tag(0), Kept(torch.arange(3.0), torch.ones(2)))
    found = OwnStore(tmp_path / "state", (3, 2)).before(tag(4))
    assert torch.equal(found.method, torch.arange(3.0))
    assert torch.equal(found.uplink, torch.ones(2))


def test_computing_again_on_a_model_begins_with_what_was_kept_before_it(store):
    store.put(tag(0), kept(0))
    store.put(tag(3), kept(3))
    store.put(tag(3, 1), kept(31))
    assert number(store.before(tag(3))) == 0
    assert number(store.before(tag(3, 1))) == 3
    assert number(store.before(tag(4))) == 31


def test_a_ue_goes_back_with_its_cloud_and_what_was_kept_since_is_gone(store):
    for base_round in range(6):
        store.put(tag(base_round), kept(base_round))
    assert number(store.before(tag(3))) == 2
    store.put(tag(3), kept(33))
    assert number(store.before(tag(9))) == 33


def test_another_run_begins_anew_and_leaves_nothing_of_the_old(store, tmp_path):
    store.put(tag(5), kept(5))
    assert store.before(tag(6, run="../run-2")) is None
    store.put(tag(0, run="../run-2"), kept(7))
    assert number(store.newest()) == 7
    assert len(list((tmp_path / "state").iterdir())) == 1


def test_the_disk_is_not_filled(store, tmp_path):
    for base_round in range(40):
        store.put(tag(base_round), kept(base_round))
    assert len(list((tmp_path / "state").iterdir())) == 16
    assert number(store.before(tag(30))) == 29


def test_rows_of_another_size_are_not_taken(store, tmp_path):
    store.put(tag(0), kept(0))
    assert OwnStore(tmp_path / "state", (4, 0)).before(tag(1)) is None
    assert OwnStore(tmp_path / "state", (3, 1)).before(tag(1)) is None


@pytest.mark.parametrize("content", [b"", b"nonsense" * 9, b"x" * 10_000])
def test_a_spoilt_file_is_passed_over(store, tmp_path, content):
    store.put(tag(0), kept(0))
    store.put(tag(1), kept(1))
    newest = max((tmp_path / "state").iterdir())
    newest.write_bytes(content)
    assert number(store.before(tag(2))) == 0


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_a_struck_file_is_whole_or_passed_over_and_said(store, tmp_path, caplog, kind):
    store.put(tag(0), kept(0))
    store.put(tag(1), kept(1))
    newest, draw = max((tmp_path / "state").iterdir()), random.Random(22)
    content = newest.read_bytes()
    for _ in range(100):
        spoilt = bytearray(content)
        if kind == "flip":
            spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
        else:
            del spoilt[draw.randrange(len(spoilt)) :]
        newest.write_bytes(spoilt)
        caplog.clear()
        found = store.before(tag(2))
        assert torch.equal(found.method, kept(0).method) or torch.equal(found.method, kept(1).method)
        assert number(found) == 1 or "kept file" in caplog.text
        assert number(store.newest()) == number(found)


def test_strange_names_in_the_folder_are_nobodys(store, tmp_path):
    store.put(tag(0), kept(0))
    known = max((tmp_path / "state").iterdir())
    known.with_name(f"{known.stem}-copy.safetensors").write_bytes(known.read_bytes())
    known.with_name(f"{known.stem.split('-')[0]}-x.safetensors").mkdir()
    assert number(store.before(tag(1))) == 0
    store.put(tag(1), kept(1))
    assert number(store.newest()) == 1


def test_a_state_that_is_a_file_is_refused_at_the_start(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(SettingsError, match="is a file; wanted a folder"):
        OwnStore(tmp_path / "state", (3, 0))
    with pytest.raises(SettingsError, match="is a file; wanted a folder"):
        Unsent(tmp_path / "state" / "codec", 3)
    OwnStore(tmp_path / "state", (0, 0))


def test_a_file_of_an_earlier_version_is_taken(store, tmp_path):
    from safetensors.torch import save

    store.put(tag(0), kept(0))
    max((tmp_path / "state").iterdir()).write_bytes(save({"method": torch.full((3,), 5.0)}))
    assert number(store.before(tag(1))) == 5


def test_a_ue_that_has_lost_what_it_kept_begins_anew_and_says_so(store, caplog):
    with caplog.at_level(logging.WARNING):
        assert store.before(tag(0)) is None
        assert not caplog.records
        assert store.before(tag(4)) is None
    assert "begins anew" in caplog.text
