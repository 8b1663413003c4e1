"""Rows on disk: versions that never change, slots that are used again, damage that shows, checkpoints that grow."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpfl.reporting.checkpoint import CheckpointError, load_latest, save_checkpoint
from hpfl.row_files import HEADER_BYTES, FileRows, RowFileError
from hpfl.row_folder import RowFolder
from hpfl.row_sums import row_sums
from hpfl.training.state import TrainState, initial_state

IN_FOLDERS = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
WIDE = 1010


def state(number: int, **kept: object) -> TrainState:
    return initial_state(torch.zeros(3), num_edges=2, num_ues=4).but(round=number, kept=kept)


def begun(folder: Path, count: int = 20, numbers: int = 5, dtype: torch.dtype = torch.float32) -> FileRows:
    return RowFolder(folder, whole_bytes=0).begin("method", torch.arange(numbers, dtype=dtype), count)


@IN_FOLDERS
@given(st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=20, unique=True), max_size=8), st.data())
def test_rows_on_disk_are_those_of_a_tensor_and_no_version_ever_changes(
    tmp_path: Path, turns: list[list[int]], data: st.DataObject
) -> None:
    shutil.rmtree(tmp_path / "rows", ignore_errors=True)
    rows = begun(tmp_path / "rows")
    plain = rows.at(np.arange(20))
    versions = [(rows, plain)]
    for number, turn in enumerate(turns):
        ues, new = np.array(turn), torch.full((len(turn), 5), float(number)) + torch.arange(5)
        rows, plain = rows.replaced(ues, new), plain.index_copy(0, torch.from_numpy(ues), new)
        versions.append((rows, plain))
        if data.draw(st.booleans()):
            del versions[0]
        if data.draw(st.booleans()):
            old, older = versions[0]
            rows = rows.with_rows_of(ues[:3], old)
            plain = plain.index_copy(0, torch.from_numpy(ues[:3]), older[ues[:3]])
            versions.append((rows, plain))
    for kept, wanted in versions:
        assert torch.equal(kept.at(np.arange(20)), wanted)


def test_a_file_does_not_grow_beyond_what_versions_need(tmp_path: Path) -> None:
    rows = begun(tmp_path)
    for number in range(50):
        rows = rows.replaced(np.arange(20), torch.full((20, 5), float(number)))
    assert rows.file.size == 40
    assert rows.file.path.stat().st_size == HEADER_BYTES + 40 * 5 * 4


def test_nothing_is_written_before_a_row_changes(tmp_path: Path) -> None:
    rows = begun(tmp_path / "rows", count=1_000_000)
    assert rows.at(np.array([3, 999_999])).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert not (tmp_path / "rows").exists()


def written(folder: Path) -> int:
    """Bytes on disk of all rows that were ever appended, and of the newest checkpoint."""
    newest = max(folder.glob("round-*.safetensors"))
    return newest.stat().st_size + sum(path.stat().st_size for path in folder.glob("*.rows"))


@pytest.mark.parametrize("on_disk", [True, False], ids=["on disk", "in memory"])
def test_a_checkpoint_writes_the_rows_that_changed_and_no_others(on_disk: bool, tmp_path: Path) -> None:
    count, turn = 20_000, 20
    rows = RowFolder(tmp_path, whole_bytes=0)
    first = torch.zeros(WIDE)
    kept = rows.begin("method", first, count) if on_disk else first.repeat(count, 1)
    sizes = []
    for number in range(1, 4):
        ues, new = np.arange(turn) * number, torch.randn(turn, WIDE)
        kept = kept.replaced(ues, new) if on_disk else kept.index_copy(0, torch.from_numpy(ues), new)
        save_checkpoint(tmp_path, state(number, method=kept), fingerprint="f", rows=rows)
        sizes.append(written(tmp_path))
    index = 4 * count
    assert sizes[0] < index + (turn + 2) * WIDE * 4 + 20_000
    assert max(np.diff(sizes)) <= (turn + 1) * (WIDE * 4 + 16)
    assert sizes[-1] < count * WIDE * 4 / 50


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("on_disk", [True, False], ids=["on disk", "in memory"])
def test_rows_come_back_bit_by_bit_and_go_on(on_disk: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    rows, first = RowFolder(tmp_path, whole_bytes=0), torch.zeros(7, dtype=dtype)
    kept = rows.begin("method", first, 30) if on_disk else first.repeat(30, 1)
    start = {"method": kept}
    for number in range(1, 5):
        new = torch.randn(10, 7, dtype=dtype)
        kept = kept.replaced(np.arange(10), new) if on_disk else kept.index_copy(0, torch.arange(10), new)
        save_checkpoint(tmp_path, state(number, method=kept, method_before=start["method"]), fingerprint="f", rows=rows)
    wanted = kept.at(np.arange(30)) if on_disk else kept
    again = RowFolder(tmp_path, whole_bytes=0)
    start = {"method": again.begin("method", first, 30) if on_disk else first.repeat(30, 1)}
    found = load_latest(tmp_path, fingerprint="f", restored=lambda number, notes: again.restored(number, notes, start))
    own = found.state.kept["method"]
    assert isinstance(own, FileRows) == on_disk
    assert torch.equal(own.at(np.arange(30)) if on_disk else own, wanted)
    before = found.state.kept["method_before"]
    assert (before.at(np.arange(30)) if on_disk else before).abs().sum() == 0
    save_checkpoint(tmp_path, found.state.but(round=5), fingerprint="f", rows=again)


def test_a_killed_run_finds_the_rows_of_its_checkpoint_whatever_was_written_since(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path, whole_bytes=0)
    kept = folder.begin("method", torch.zeros(5), 20).replaced(np.arange(20), torch.ones(20, 5))
    save_checkpoint(tmp_path, state(1, method=kept), fingerprint="f", rows=folder)
    for number in range(9):  # rounds that no checkpoint has
        kept = kept.replaced(np.arange(20), torch.full((20, 5), float(number)))
    again = RowFolder(tmp_path, whole_bytes=0)
    start = {"method": again.begin("method", torch.zeros(5), 20)}
    found = load_latest(tmp_path, fingerprint="f", restored=lambda number, notes: again.restored(number, notes, start))
    assert torch.equal(found.state.kept["method"].at(np.arange(20)), torch.ones(20, 5))


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + 17] ^= 4
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    os.truncate(path, HEADER_BYTES + 30)


def other_header(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"numbers": 5', b'"numbers": 6'))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flipped, "row 0 is not what was written"),
        (cut, "has 1 rows; wanted 20"),
        (other_header, "wanted .*'numbers': 5"),
        (Path.unlink, "cannot be read"),
    ],
)
def test_damaged_rows_are_told_and_never_believed(damage: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    folder = RowFolder(tmp_path, whole_bytes=0)
    kept = folder.begin("method", torch.zeros(5), 20).replaced(np.arange(20), torch.ones(20, 5))
    save_checkpoint(tmp_path, state(1, method=kept), fingerprint="f", rows=folder)
    damage(tmp_path / "method.rows")
    again = RowFolder(tmp_path, whole_bytes=0)
    start = {"method": again.begin("method", torch.zeros(5), 20)}
    with pytest.raises(CheckpointError, match=words):
        load_latest(tmp_path, fingerprint="f", restored=lambda number, notes: again.restored(number, notes, start))


def test_a_disk_that_is_nearly_full_is_refused_before_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(tmp_path)._replace(free=3_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(RowFileError, match=r"takes up to 4.04 GB in .*, whose disk has 3 GB for it; make room"):
        RowFolder(tmp_path / "run").check_room(4.04e9)
    RowFolder(tmp_path / "run").check_room(2.9e9)
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_says_so_and_leaves_every_version_as_it_was(tmp_path: Path) -> None:
    rows = begun(tmp_path).replaced(np.arange(20), torch.ones(20, 5))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER_BYTES + 1000, before[1]))
    try:
        with pytest.raises(RowFileError, match=r"cannot grow to .* GB \(.*\); make room on its disk and go on"):
            rows.replaced(np.arange(20), torch.full((20, 5), 2.0)).replaced(np.arange(20), torch.zeros(20, 5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert torch.equal(rows.at(np.arange(20)), torch.ones(20, 5))
    assert torch.equal(rows.replaced(np.arange(20), torch.zeros(20, 5)).at(np.arange(20)), torch.zeros(20, 5))


def test_sums_tell_rows_apart_that_differ_in_one_bit() -> None:
    rows = torch.randn(200, 33)
    bits = rows.view(torch.int32).clone()
    bits[torch.arange(200), torch.arange(200) % 33] ^= 1 << (torch.arange(200, dtype=torch.int32) % 31)
    assert (row_sums(rows) != row_sums(bits.view(torch.float32))).all()
    assert torch.equal(row_sums(rows), row_sums(rows.clone()))
