"""Nodes as processes: clean ends, restarts, metrics, logs, refusals at the command line."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from deployment_nodes import SMALL, audit_script, until
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.cli_deploy_live import line_of
from hpfl.deployment.certificates import write_secret
from hpfl.deployment.local import LocalOptions, Supervisor, laid_out, lay_out
from hpfl.deployment.server_metrics import Metrics
from hpfl.deployment.settings import EdgeNodeSettings, SettingsError, read_settings
from hpfl.deployment.status import read_status
from hpfl.reporting.store import read_rounds, read_summary
from hpfl.rng import Streams
from results_table import explained, flat

HPFL = [sys.executable, "-c", "from hpfl.cli import main; main()"]


def small(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, "network.ues_per_edge=1", "network.edges=1", *overrides])


def rounds_of(run):
    path = run / "rounds.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def state_of_edge(run):
    status = read_status(run) or {"nodes": []}
    return next((row["state"] for row in status["nodes"] if row["node"] == "edge-0"), "")


def test_terminated_after_a_round_a_cloud_is_resumed_and_loses_nothing(tmp_path):
    """SIGTERM ends the cloud cleanly; started again it goes on, its edge comes back, metrics and status tell of it."""
    options = LocalOptions(paced=True, time_scale=0.3, metrics=True, timing={"retry_s": 0.5})
    nodes = lay_out(tmp_path, small("training.rounds=1000"), options)
    run = tmp_path / "run"
    supervisor = Supervisor(nodes)
    supervisor.start()
    try:
        until(lambda: rounds_of(run) >= 2)
        edge = read_settings(EdgeNodeSettings, nodes[1].file)
        with urllib.request.urlopen(f"http://{edge.metrics}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert "hpfl_children_attached 1.0" in text
        assert "hpfl_updates_accepted_total" in text
        cloud = supervisor.processes["cloud"]
        cloud.send_signal(signal.SIGTERM)
        assert cloud.wait(30) == 130
        done = rounds_of(run)
        counts = audit_script.audit(run)
        assert counts["rounds"] == done
        assert not counts["superseded"]
        supervisor._start("cloud")
        until(lambda: rounds_of(run) >= done + 3)  # a round's audit follows its record: that of the one before is there
        supervisor.processes["cloud"].kill()
        supervisor.processes["cloud"].wait(10)
    finally:
        supervisor.stop()
    counts = audit_script.audit(run)
    assert counts["starts"] == 2
    assert counts["updates"] == counts["rounds"] >= done + 2
    status = read_status(run)
    assert [row["node"] for row in status["nodes"]] == ["cloud", "edge-0", "ue-0"]
    for node in nodes:
        lines = [json.loads(line) for line in node.log.read_text().splitlines()]
        assert {line["node"] for line in lines} == {node.name}
        assert "BEGIN" not in node.log.read_text()
    assert [node.name for node in laid_out(tmp_path)] == ["cloud", "edge-0", "ue-0"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edge-0", "ue-0"])
def test_terminated_while_it_uploads_a_node_ends_once_its_update_has_arrived(tmp_path, name):
    """The round that was under way aggregates it; started again, the node is part of later rounds."""
    nodes = lay_out(tmp_path, small("training.rounds=1000"), LocalOptions(time_scale=6.0, timing={"retry_s": 0.5}))
    run = tmp_path / "run"
    supervisor = Supervisor(nodes)
    supervisor.start()
    try:
        until(lambda: rounds_of(run) >= 1 and state_of_edge(run) != "uploading")
        until(lambda: state_of_edge(run) == "uploading")  # it has just begun: a round takes seconds
        done = rounds_of(run)
        supervisor.processes[name].send_signal(signal.SIGTERM)
        assert supervisor.processes[name].wait(30) == 0
        until(lambda: rounds_of(run) > done)
        supervisor._start(name)
        until(lambda: rounds_of(run) > done + 1)
    finally:
        supervisor.stop()
    records = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    assert [record["aggregated"] for record in records[done : done + 2]] == [[0], [0]]
    assert audit_script.audit(run)["updates"] == sum(len(record["aggregated"]) for record in records)


def test_nodes_do_not_outlive_their_supervisor(tmp_path):
    nodes = lay_out(tmp_path, small("training.rounds=1000"), LocalOptions(time_scale=0.3))
    code = (
        "import sys, time; from pathlib import Path; from hpfl.deployment.local import Supervisor, laid_out; "
        "s = Supervisor(laid_out(Path(sys.argv[1]))[2:]); s.start(); "
        "print(s.processes['ue-0'].pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with parent:
        child = int(parent.stdout.readline())
        until(lambda: "lost the parent" in nodes[2].log.read_text())
        parent.kill()
    until(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child), seconds=20)


def _is_zombie(pid):
    return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_instants_the_audit_still_recomputes(tmp_path, seed):
    """A minute in which every process may be killed at any instant; whoever dies is started again."""
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "training.rounds=100000", "planning.planner=random"])
    options = LocalOptions(paced=True, time_scale=0.5, timing={"retry_s": 0.5, "gather_s": 5.0, "compute_s": 5.0})
    nodes = lay_out(tmp_path, config, options)
    supervisor = Supervisor(nodes)
    supervisor.start()
    draws = iter(Streams(seed).at("kills").uniform(1000))
    run, killed, due = tmp_path / "run", [], [0.0]
    end = time.monotonic() + 75

    def strike():
        now = time.monotonic()
        if now > end:
            raise TimeoutError
        if rounds_of(run) < 1 or now < due[0]:
            return
        name = nodes[int(next(draws) * len(nodes))].name
        supervisor.processes[name].kill()
        killed.append(name)
        due[0] = now + 1.0 + 4.0 * next(draws)

    try:
        with pytest.raises(TimeoutError):
            supervisor.watch(strike, every_s=0.05)
    finally:
        supervisor.stop()
    counts = audit_script.audit(run)
    assert len(killed) > 10
    assert "cloud" in killed
    assert counts["rounds"] >= 5
    assert counts["updates"] >= 5


def test_without_a_terminal_a_line_tells_what_is_known():
    cloud = {"node": "cloud", "state": "running", "planned_s": None, "measured_s": None, "received_bytes": 0}
    status = {"round": 0, "rounds": 8, "nodes": [cloud, {"state": "ready"}, {"state": "absent"}]}
    assert line_of(status) == "round 0/8  1 node there  0.0 MB received"
    cloud |= {"planned_s": 0.25, "measured_s": 0.5, "received_bytes": 2_000_000}
    assert line_of(status) == "round 0/8  1 node there  planned 0.250 s  measured 0.500 s  2.0 MB received"


def test_certificates_are_made_and_issued_at_the_command_line(tmp_path):
    folder = tmp_path / "certs"
    assert CliRunner().invoke(app, ["certs", "init", str(folder)]).exit_code == 0
    done = CliRunner().invoke(app, ["certs", "issue", str(folder), "cloud", "edge-0", "ue-0"])
    assert done.exit_code == 0
    for name in ("ca", "cloud", "edge-0", "ue-0"):
        assert (folder / f"{name}.pem").read_bytes().startswith(b"-----BEGIN CERTIFICATE")
        assert (folder / f"{name}.key").stat().st_mode & 0o077 == 0
    again = CliRunner().invoke(app, ["certs", "init", str(folder)])
    assert again.exit_code == 2
    assert CliRunner().invoke(app, ["certs", "issue", str(folder), "../evil"]).exit_code == 2
    assert CliRunner().invoke(app, ["certs", "issue", str(folder), "somebody"]).exit_code == 2
    assert CliRunner().invoke(app, ["certs", "issue", str(tmp_path / "none"), "cloud"]).exit_code == 2


@pytest.mark.parametrize("command", [["deploy", "local"], ["certs", "init"], ["cloud"], ["edge"], ["ue"]])
def test_help_teaches(command):
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "100"})
    assert shown.exit_code == 0
    assert "Example: hpfl" in shown.stdout


def test_a_bad_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text('name = "edge-0"\nclod = "127.0.0.1:1"\n')
    with pytest.raises(SettingsError, match="clod"):
        read_settings(EdgeNodeSettings, path)
    done = subprocess.run([*HPFL, "edge", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("hpfl: ")
    assert "Traceback" not in done.stderr


def test_a_key_written_over_a_readable_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "ca.key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_secret(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("address", ["localhost:abc", "localhost", "localhost:", "127.0.0.1:70000", "127.0.0.1:-1"])
def test_an_address_for_metrics_that_is_none_is_refused_in_a_sentence(address):
    with pytest.raises(SettingsError, match="wanted host:port"):
        Metrics().serve(address)


def test_an_address_for_metrics_that_is_taken_is_refused_in_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="cannot be served"):
        Metrics().serve(f"127.0.0.1:{taken.getsockname()[1]}")


def test_paths_in_a_file_start_at_its_folder(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text('name = "edge-0"\n[tls]\nca = "certs/ca.pem"\n')
    assert read_settings(EdgeNodeSettings, path).tls.ca == str(tmp_path / "certs" / "ca.pem")


def test_an_occupied_folder_is_not_overwritten(tmp_path):
    (tmp_path / "something").write_text("mine")
    done = CliRunner().invoke(app, ["deploy", "local", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["something"]


def test_a_finished_deployment_goes_on_for_more_rounds_and_becomes_nothing_else(tmp_path):
    folder = tmp_path / "d"
    first = ["--edges", "1", "--ues-per-edge", "1", "--set", "planning.planner=full", "--no-pacing"]

    def deployed(*arguments):
        return CliRunner().invoke(app, ["deploy", "local", "--out", str(folder), *arguments])

    assert deployed("quickstart-paper", *first, "--rounds", "1").exit_code == 0
    assert (folder / "run" / "figures" / "progress.png").stat().st_size > 10_000
    assert flat(read_summary(folder / "run")) == explained("summary.json", "deployed")
    columns = (folder / "run" / "ues.csv").read_text().splitlines()[0].split(",")
    assert set(columns) == explained("ues.csv", "deployed")
    assert set(read_rounds(folder / "run")[0]) == explained("rounds.jsonl", "deployed")
    start = audit_script.audit(folder / "run")
    for arguments, said in (
        (["--edges", "3"], "--edges cannot be changed by --resume: it is 1"),
        (["--ues-per-edge", "2"], "--ues-per-edge cannot be changed by --resume: it is 1"),
        (["--pacing"], "--pacing cannot be changed by --resume: it is off"),
        (["--time-scale", "0.5"], "--time-scale cannot be changed by --resume: it is 1.0"),
        (["--serve"], "--serve cannot be changed by --resume: it is off"),
        (["--metrics"], "--metrics cannot be changed by --resume: it is off"),
        (["--set", "learning.outer_lr=0.5", "--rounds", "3"], "--set learning.outer_lr=0.5 cannot be used"),
        (["massive"], "massive is not the experiment"),
        (["paper-mnist", *first, "--rounds", "3"], "data.dataset is 'mnist' here, 'mnist-mini' in the run"),
        (["--rounds", "0"], "training.rounds is 0"),
    ):
        done = deployed("--resume", *arguments)
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
        assert audit_script.audit(folder / "run") == start
    longer = deployed("--resume", "quickstart-paper", *first, "--rounds", "3")
    assert (longer.exit_code, "round 1/1" in longer.stdout) == (0, False)
    assert json.loads((folder / "run" / "summary.json").read_text())["rounds"] == 3
    assert audit_script.audit(folder / "run")["rounds"] == 3
    shorter = deployed("--resume", "--rounds", "2")
    assert (shorter.exit_code, "the run to resume has done 3 already" in shorter.stderr) == (2, True)
    assert deployed("--resume").exit_code == 0


def test_a_deployment_that_diverges_says_so_and_ends(tmp_path):
    shape = ["--edges", "1", "--ues-per-edge", "1", "--rounds", "5", "--set", "learning.outer_lr=1e30"]
    done = CliRunner().invoke(app, ["deploy", "local", "-q", *shape, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr.startswith("hpfl: the model after round 1 has diverged")
    assert str(tmp_path / "logs" / "cloud.jsonl") in done.stderr
    assert (tmp_path / "logs" / "cloud.jsonl").read_text().splitlines()[-1] == done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["life.leave=0.1"], "section life is in use"),
        (["training.clock=event", "training.trigger=first"], "a deployed cloud waits for the edges it called"),
        (["learning.model=torch.nn:ReLU"], "no trainable parameters"),
        (["life.leav=0.1"], "did you mean life.leave?"),
    ],
)
def test_what_a_cloud_would_refuse_is_refused_before_anything_is_written(tmp_path, changes, said):
    sets = [word for change in changes for word in ("--set", change)]
    done = CliRunner().invoke(app, ["deploy", "local", "quickstart-paper", *sets, "--out", str(tmp_path / "d")])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "d").exists()


def test_importing_the_package_needs_no_transport():
    code = "import sys, hpfl, hpfl.cli; sys.exit(any(m.split('.')[0] in {'grpc', 'cryptography'} for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, timeout=60, check=False)
    assert done.returncode == 0
    assert Path(hpfl.__file__).exists()
