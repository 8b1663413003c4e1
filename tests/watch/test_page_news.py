"""What a page hears while a run goes on: new rounds, half-written lines, runs that begin anew, states."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

from watch_server import SMALL, lengthened, lines_of, played, serving

import hpfl
from hpfl.watch.growing import GrowingLines
from hpfl.watch.run_state import state_of


def test_a_line_that_is_appended_comes_as_an_event_and_half_a_line_is_waited_for(run_folder, tmp_path):
    whole = (run_folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    folder = lengthened(run_folder, tmp_path / "growing", 2)
    with serving(folder) as asked, asked.events() as events:
        assert next(events)[0] == "listening"
        time.sleep(0.5)
        with (folder / "rounds.jsonl").open("ab", buffering=0) as file:
            file.write(whole[2][:100])
            time.sleep(0.4)
            assert asked.told("/api/runs/r0/columns")["count"] == 2
            file.write(whole[2][100:])
            name, told = next(events)
    assert (name, told["run"], told["count"]) == ("round", "r0", 3)
    record = lines_of(run_folder)[2]
    assert told["rows"]["round"] == [3]
    assert told["rows"]["personalised_accuracy"] == [record["personalised_accuracy"]]


def test_records_that_are_cut_and_go_on_otherwise_are_read_anew(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "cut", 6)
    path = folder / "rounds.jsonl"
    with serving(folder) as asked, asked.events() as events:
        assert next(events)[0] == "listening"
        before = asked.told("/api/runs/r0/columns")["columns"]["energy_j"]
        time.sleep(0.5)
        lines = path.read_bytes().splitlines(keepends=True)
        other = [line.replace(b'"energy_j": ', b'"energy_j": 1') for line in lines[3:]]
        with path.open("r+b") as file:
            file.truncate(sum(map(len, lines[:3])))
            file.seek(0, os.SEEK_END)
            file.write(b"".join(other))
        while (name := next(events)[0]) == "state":
            pass
        assert name == "reset"
        after = asked.told("/api/runs/r0/columns")["columns"]
    assert after["energy_j"][:3] == before[:3]
    assert all(new > old for new, old in zip(after["energy_j"][3:], before[3:], strict=True))
    assert after["cumulative_energy_j"][-1] > sum(before)


def test_a_run_that_is_replaced_by_a_shorter_one_is_noticed(tmp_path):
    path, told = tmp_path / "lines", []
    lines = GrowingLines(path)
    assert not lines.refresh(lambda piece, count: told.append((piece, count)))
    path.write_bytes(b"one\ntwo\nthr")
    lines.refresh(lambda piece, count: told.append((piece, count)))
    assert told.pop() == (b"one\ntwo\n", 2)
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert not lines.refresh(lambda piece, count: told.append((piece, count)))
    assert told.pop() == (b"three\n", 1)
    assert lines.line(2) == b"three\n"
    path.write_bytes(b"1\n2\n3\n4\n5\n")
    assert lines.refresh(lambda piece, count: told.append((piece, count)))
    assert told.pop() == (b"1\n2\n3\n4\n5\n", 5)
    path.unlink()
    assert lines.refresh(lambda piece, count: None)
    assert len(lines) == 0


def test_a_resumed_run_leaves_the_scenes_of_one_that_was_not_stopped(run_folder, tmp_path):
    seen = []
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 3)
    folder = played(tmp_path / "stopped", hooks=hooks)
    assert len(lines_of(folder, "scenes.jsonl")) == 3
    played(folder, resume=True)
    assert (folder / "scenes.jsonl").read_bytes() == (run_folder / "scenes.jsonl").read_bytes()


def test_a_run_that_a_process_writes_is_running_and_nobody_tries_its_lock(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "held", 2)
    path = folder / "rounds.jsonl"
    os.utime(path, (1, 1))
    state = {"rounds": 2, "total": 6, "completed": False}
    assert state_of(path, **state) == "stopped"
    held = "import fcntl,sys; f=open(sys.argv[1],'ab'); fcntl.flock(f,fcntl.LOCK_EX); print(1,flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", held, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert state_of(path, **state) == "running"
        assert state_of(path, **(state | {"rounds": 0})) == "waiting"
        assert state_of(path, **(state | {"completed": True})) == "done"
        holder.communicate(b"\n")


def test_a_page_that_listens_and_never_reads_is_let_go_and_holds_nobody_up(run_folder, tmp_path):
    folder = lengthened(run_folder, tmp_path / "stuck", 2)
    line = (run_folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)[0]
    with serving(folder) as asked, socket.create_connection((asked.host, asked.port)) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall(f"GET /api/events HTTP/1.1\r\nHost: {asked.host}:{asked.port}\r\n\r\n".encode())
        time.sleep(0.3)
        with (folder / "rounds.jsonl").open("ab", buffering=0) as file, asked.events() as events:
            assert next(events)[0] == "listening"
            time.sleep(0.3)
            for _ in range(5):
                file.write(line)
                assert next(events)[0] in {"round", "state"}
        assert asked.told("/api/runs")["runs"][0]["rounds"] == 7


def test_a_run_goes_on_to_the_same_bits_when_its_page_is_killed(run_folder, tmp_path):
    folder = tmp_path / "watched"
    changes = [part for change in SMALL for part in ("--set", change)]
    start = "from hpfl.cli import main; main()"
    command = [sys.executable, "-c", start, "run", "quickstart", "--out", str(folder), "--watch", *changes]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as run:
        page = _child_of(run.pid)
        os.kill(page, signal.SIGKILL)
        said = run.communicate(timeout=280)[0].decode()
    assert run.returncode == 0, said
    for name in ("model.safetensors", "scenes.jsonl", "timeline.jsonl"):
        assert (folder / name).read_bytes() == (run_folder / name).read_bytes()
    played_rounds = [record | {"planning_s": 0} for record in lines_of(folder)]
    assert json.dumps(played_rounds) == json.dumps([r | {"planning_s": 0} for r in lines_of(run_folder)])


def _child_of(pid):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:  # noqa: PTH123  a file of the system
            found = listed.read().split()
        if found:
            return int(found[0])
        time.sleep(0.05)
    raise AssertionError("the run has started no page")


def test_a_server_that_ends_lets_its_listeners_go_without_a_word(run_folder, capfd):
    with serving(run_folder) as asked:
        listener = asked.events()
        events = listener.__enter__()
        assert next(events)[0] == "listening"
    assert list(events) == []
    listener.__exit__(None, None, None)
    assert "Cancel" not in capfd.readouterr().err
