"""Whatever is cut, flipped or removed in a cloud's folder: it goes on to the same model, or is refused by name."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deployment_nodes import _SCRIPT, Certificates, audit_script
from test_watched_cloud import Deployed

from damage import struck
from hpfl import atomic, deployed
from hpfl.cli_errors import REFUSALS
from hpfl.deployment.audit import LOG
from hpfl.reporting import read_rounds
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError
from hpfl.stopping import Stop
from watching import Diary

SIZE = ("network.ues_per_edge=1", "training.rounds=5")
IN_WORDS = ("put ", "move ", "choose another", "wanted the 16")


class Struck(Deployed):
    """Two edges with a UE each, five rounds."""

    def __init__(self, certificates, out):
        super().__init__(certificates, out, *SIZE)

    def start_all(self):
        for number in range(2):
            self.start_edge(number)
            self.start_ue(number)

    def run(self, *watchers, stop=None):
        def listening(port):
            self.cloud_port = port
            self.start_all()

        return deployed.run_cloud(self.cloud_settings, stop=stop or Stop(), listening=listening, watchers=watchers)


def begun(certificates, out, *, last):
    """A deployed run that was stopped after a round, or is done."""
    stop = Stop()
    with Struck(certificates, out) as nodes:
        nodes.run(Diary(on_round=lambda record: record.round == last and stop.ask()), stop=stop)
        for name in list(nodes.tasks):
            nodes.kill(name)
    return out


@pytest.fixture(autouse=True, scope="module")
def _no_pictures():
    """They take longer than everything else; nothing is ever read from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployed, "draw_at_the_end", lambda folder, note: None)
        yield


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def whole(authority, tmp_path_factory):
    return begun(authority, tmp_path_factory.mktemp("whole") / "run", last=5)


@pytest.fixture(scope="module")
def stopped(authority, tmp_path_factory):
    return begun(authority, tmp_path_factory.mktemp("stopped") / "run", last=3)


def copied(folder, place):
    shutil.copytree(folder, place)
    return place


def gone_on(certificates, folder):
    """Start a cloud in a folder; the refusal, or nothing, and the round that it went on from."""
    diary = Diary()
    with Struck(certificates, folder) as nodes:
        try:
            assert nodes.run(diary)
        except REFUSALS as error:
            return str(error), 0
        finally:
            for name in list(nodes.tasks):
                nodes.kill(name)
    return "", diary.run.state.round


def assert_exact_or_named(begun, folder, whole, hit, told):
    refusal, since = told
    name = Path(hit.split()[1])
    if refusal:
        assert name.name in refusal or name.parts[0] in refusal, (hit, refusal)
        assert any(words in refusal for words in IN_WORDS), refusal
        return "refused"
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes(), hit
    before = (begun / "rounds.jsonl").read_bytes().splitlines()[:since]
    assert (folder / "rounds.jsonl").read_bytes().splitlines()[:since] == before, hit
    assert [record["aggregated"] for record in read_rounds(folder)] == [
        record["aggregated"] for record in read_rounds(whole)
    ]
    fault = audit_fault(folder)
    assert not fault or name.parts[0] in {"audit", LOG, "checkpoints"}, (hit, fault)
    assert not fault or name.name in fault or LOG in fault, (hit, fault)
    return "exact, the audit names it" if fault else "exact"


def audit_fault(folder):
    try:
        audit_script.audit(folder)
    except audit_script.AuditError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_a_struck_cloud_goes_on_to_the_same_model_or_is_refused_by_name(authority, stopped, whole, tmp_path, seed):
    begun = stopped if seed % 2 else whole
    folder = copied(begun, tmp_path / "run")
    hit = struck(folder, random.Random(seed))
    assert_exact_or_named(begun, folder, whole, hit, gone_on(authority, folder))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_struck_clouds_go_on_to_the_same_model_or_are_refused_by_name(authority, stopped, whole, tmp_path):
    ends, draw, faults = Counter(), random.Random(22), []
    for number in range(200):
        begun = stopped if number % 3 else whole
        folder = copied(begun, tmp_path / "run")
        hit = struck(folder, draw)
        try:
            ends[assert_exact_or_named(begun, folder, whole, hit, gone_on(authority, folder))] += 1
        except Exception as error:  # noqa: BLE001  a traceback is a fault too
            faults.append(f"{hit}: {type(error).__name__} {error}")
        shutil.rmtree(folder)
    print(dict(ends))
    assert not faults


def changed(path, before, after):
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after, 1))


def test_a_changed_digit_in_the_audit_is_refused_and_without_the_audit_another_begins(authority, stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    changed(folder / LOG, b'"planned_s": 0', b'"planned_s": 1')
    refusal, _ = gone_on(authority, folder)
    assert "audit.jsonl is not what was written up to round 3 (move it and audit/ elsewhere" in refusal
    with pytest.raises(audit_script.AuditError, match=r"audit.jsonl is not what it was when round-0000000\d"):
        audit_script.audit(folder)
    (folder / LOG).unlink()
    shutil.rmtree(folder / "audit")
    assert gone_on(authority, folder) == ("", 3)
    assert audit_script.audit(folder)["rounds"] == 2


@pytest.mark.parametrize("said", ["", "0123456789abcdef", "nonsense", None])
def test_a_run_keeps_its_name_whatever_happens_to_the_file_of_it(authority, stopped, tmp_path, said):
    folder = copied(stopped, tmp_path / "run")
    name = (folder / "run-id").read_text()
    (folder / "run-id").unlink()
    if said is not None:
        (folder / "run-id").write_text(said)
    assert gone_on(authority, folder) == ("", 3)
    assert (folder / "run-id").read_text() == name
    assert audit_script.audit(folder)["rounds"] == 5


def test_a_name_that_nothing_tells_any_more_is_refused(authority, stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    (folder / "run-id").write_text("")
    (folder / LOG).unlink()
    refusal, _ = gone_on(authority, folder)
    assert "run-id is ''; wanted the 16 hexadecimal digits" in refusal


def test_a_cloud_without_its_checkpoints_does_not_begin_again(authority, stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "rounds.jsonl").read_bytes()
    refusal, _ = gone_on(authority, folder)
    assert "has 3 rounds, and checkpoints/ beside it has no checkpoint to go on from" in refusal
    assert (folder / "rounds.jsonl").read_bytes() == before


def test_the_audit_script_names_a_file_that_was_cut_in_one_line(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    path = next((folder / "audit").glob("round-00000002-*"))
    path.write_bytes(path.read_bytes()[:-9])
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), str(folder)], capture_output=True, text=True, check=False, env=os.environ
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the audit fails: audit/{path.name} is missing or damaged")
    assert done.returncode == 1


def test_what_a_crash_spoilt_after_the_last_checkpoint_is_no_fault_of_the_audit(authority, stopped, tmp_path):
    """The line of a round that no checkpoint knows is left unread, and the round is played again."""
    folder = copied(stopped, tmp_path / "run")
    (folder / "checkpoints" / "round-00000003.safetensors").unlink()
    changed(folder / LOG, b'"round": 3, "combine"', b'"round": 4, "combine"')
    with pytest.raises(audit_script.AuditError, match="round 4 is logged where round 3 was due"):
        audit_script.audit(folder)
    assert gone_on(authority, folder) == ("", 2)
    counts = audit_script.audit(folder)
    assert (counts["rounds"], counts["unread"]) == (5, 1)


def test_all_of_the_audit_is_on_the_disk_before_a_checkpoint_is(authority, tmp_path, monkeypatch):
    """Whatever a checkpoint names has been synced when it is moved to its place: files, their folder, the lines."""
    synced, missing = set(), []
    real_file, real_fsync, real_replace = atomic.sync_file, os.fsync, Path.replace

    def sync_file(path):
        synced.add(Path(path))
        real_file(path)

    def fsync(descriptor):
        synced.add((Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_size))
        real_fsync(descriptor)

    def replace(path, target):
        if Path(target).parent.name == "checkpoints":
            log = tmp_path / LOG
            named = {json.loads(line)["file"] for line in log.read_text().splitlines()}
            missing.extend(name for name in named if name and tmp_path / name not in synced)
            missing.extend([LOG] if (log, log.stat().st_size) not in synced else [])
            missing.extend(["audit/"] if tmp_path / "audit" not in synced else [])
        return real_replace(path, target)

    monkeypatch.setattr(atomic, "sync_file", sync_file)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    begun(authority, tmp_path, last=3)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    assert missing == []


def test_refusals_of_a_cloud_end_it_with_status_2():
    assert {OutputError, CheckpointError} <= set(REFUSALS)
