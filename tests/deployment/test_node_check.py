"""`hpfl cloud|edge|ue FILE --check` finds what would go wrong, says what to do, and starts nothing."""

import asyncio
import datetime
import json
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
from deployment_nodes import SMALL, Certificates, Nodes
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.data.dataset import DatasetError
from hpfl.deployment.certificates import issue, load_authority
from hpfl.deployment.local import LocalOptions, lay_out
from hpfl.deployment.processes import run_ue
from hpfl.deployment.settings import UeNodeSettings, read_settings


@pytest.fixture
def laid(tmp_path):
    """Files of one cloud, edge and UE; nothing runs."""
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "network.edges=1", "network.ues_per_edge=1"])
    return {node.name: node for node in lay_out(tmp_path, config, LocalOptions(metrics=True))}


def checked(node, *options):
    done = CliRunner().invoke(app, [node.role, str(node.file), "--check", "--json", *options])
    assert "Traceback" not in done.output
    told = json.loads(done.stdout)
    assert told["ok"] == (done.exit_code == 0)
    assert done.exit_code in {0, 2}
    return {one["check"]: (one["ok"], one["told"]) for one in told["checks"]}


def wrong(found):
    return {check: told for check, (ok, told) in found.items() if not ok}


def changed(node, *changes):
    text = node.file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    node.file.write_text(text)


def test_a_cloud_that_would_start_is_found_right_and_leaves_no_trace(laid, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    found = checked(laid["cloud"])
    assert not wrong(found)
    assert list(found) == ["files", "certificate", "experiment", "model", "out", "listen", "room", "metrics"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_lines_for_people_say_the_same(laid):
    done = CliRunner().invoke(app, ["edge", str(laid["edge-0"].file), "--check"])
    assert done.exit_code == 2
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 7 + ["WRONG", "ok"]
    assert "nobody listens there: start it, or mend the port" in done.stdout


@pytest.mark.parametrize("role", ["edge", "ue"])
def test_a_parent_that_runs_is_reached_and_one_that_would_turn_us_away_is_told(
    certificates, tmp_path, monkeypatch, role
):
    """Against a real cloud and a real edge; another authority's certificate is noticed at this end."""
    other = Certificates(tmp_path / "other")
    with Nodes(certificates, tiny=True) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        from hpfl.deployment.parent_check import checked_parent
        from hpfl.deployment.settings import SettingsError, TlsSettings

        name, port = ("cloud", nodes.cloud_port) if role == "edge" else ("edge-0", nodes.edge_ports[0])
        own, place = certificates.tls(f"{role}-0"), (f"127.0.0.1:{port}", name, name)
        assert "accepts this node's certificate" in checked_parent(own, *place)
        with pytest.raises(SettingsError, match=r"certificate of edge-7 at .* is refused here"):
            checked_parent(own, place[0], "edge-7", "edge")
        foreign = other.tls(f"{role}-0")
        with pytest.raises(SettingsError, match="not of an authority that is trusted here"):
            checked_parent(foreign, *place)
        mixed = TlsSettings(ca=own.ca, certificate=foreign.certificate, private_key=foreign.private_key)
        with pytest.raises(SettingsError, match="this node's certificate"):
            checked_parent(mixed, *place)
        monkeypatch.setattr("hpfl.deployment.parent_check._CONNECT_S", 0.5)
        with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(SettingsError):
            checked_parent(own, f"127.0.0.1:{deaf.getsockname()[1]}", name, name)


def test_every_fault_of_certificates_has_its_sentence(laid, tmp_path):
    certs, node = tmp_path / "certs", laid["edge-0"]
    authority = load_authority(certs)

    def told():
        found = wrong(checked(node))
        return found.get("files", "") + found.get("certificate", "")

    (certs / "edge-0.key").chmod(0o644)
    assert "chmod 600" in told()
    (certs / "edge-0.key").chmod(0o600)
    shutil.copy(certs / "ue-0.key", certs / "edge-0.key")
    assert "do not belong together" in told()
    issue(authority, certs, "edge-0", role="ue")
    assert "is not made to serve others" in told()
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    issue(authority, certs, "edge-0", validity=(now - 2 * day, now - day))
    assert "expired on" in told()
    issue(authority, certs, "edge-0", validity=(now - day, now + 5 * day))
    assert not told()
    assert "renew it soon" in checked(node)["certificate"][1]
    other = Certificates(tmp_path / "other")
    other.tls("edge-0")
    for suffix in ("pem", "key"):
        shutil.copy(tmp_path / "other" / f"edge-0.{suffix}", certs / f"edge-0.{suffix}")
    assert "was not issued by the authority" in told()
    for suffix in ("pem", "key"):
        shutil.copy(certs / f"ue-0.{suffix}", certs / f"edge-0.{suffix}")
    assert "is the certificate of ue-0; name is 'edge-0'" in told()
    (certs / "edge-0.pem").unlink()
    assert "cannot be read" in told()


def test_taken_ports_short_limits_and_folders_of_others_are_told(laid, tmp_path):
    node = laid["cloud"]
    (tmp_path / "run").write_text("a file")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = next(line for line in node.file.read_text().splitlines() if line.startswith("listen"))
        changed(node, (listen, f'listen = "127.0.0.1:{taken.getsockname()[1]}"'), ("[tls]", "[tls]"))
        found = wrong(checked(node))
    assert set(found) == {"listen", "out"}
    assert "end whoever has it" in found["listen"]
    assert "is not a folder" in found["out"]


def test_a_model_of_ones_own_that_is_not_found_names_pythonpath_and_data_of_another_shape_are_told(laid, tmp_path):
    node = laid["ue-0"]
    data = tmp_path / "data"
    data.mkdir()
    for name, array in (
        ("inputs", np.zeros((6, 5), np.float32)),
        ("targets", np.zeros(6, np.int64)),
        ("test_inputs", np.zeros((3, 5), np.float32)),
        ("test_targets", np.zeros(3, np.int64)),
    ):
        np.save(data / f"{name}.npy", array)
    node.file.write_text(f'data = "{data}"\n{node.file.read_text()}')
    found = wrong(checked(node))
    assert "shape (5,)" in found["data"]
    assert "nobody listens" in found["edge"]
    node.file.write_text(f'set = ["learning.model=nowhere_at_all:model"]\n{node.file.read_text()}')
    found = wrong(checked(node))
    assert any("PYTHONPATH" in told for told in found.values())
    assert found["data"].startswith("not looked at")


OWN = {
    "inputs": np.zeros((6, 1, 28, 28), np.float32),
    "targets": np.arange(6),
    "test_inputs": np.zeros((3, 1, 28, 28), np.float32),
    "test_targets": np.arange(3),
}


@pytest.mark.parametrize(
    ("name", "array", "wanted"),
    [
        ("inputs", np.zeros((6, 5), np.float32), "training part: inputs of shape (5,) and type float32 came, wanted"),
        ("test_inputs", np.zeros((3, 2, 8), np.float32), "test part: inputs of shape (2, 8) and type float32 came"),
        (
            "targets",
            np.arange(6) + 7,
            "targets of shape () and type int64 from 7 to 12 came, wanted what a model of 10",
        ),
        ("test_targets", np.arange(3) - 2, "test part: targets of shape () and type int64 from -2 to 0 came"),
        ("targets", np.zeros(6, np.float32), "training part: targets of shape () and type float32 from 0 to 0 came"),
        ("inputs", np.array(["a", "b"] * 3), "inputs has the type <U1; wanted real numbers"),
        ("inputs", np.zeros((6, 5), np.complex64), "inputs has the type torch.complex64"),
    ],
)
def test_a_ue_whose_own_data_do_not_fit_ends_before_it_connects(laid, tmp_path, name, array, wanted):
    data = tmp_path / "data"
    data.mkdir()
    for one, fitting in OWN.items():
        np.save(data / f"{one}.npy", array if one == name else fitting)
    settings = read_settings(UeNodeSettings, laid["ue-0"].file).model_copy(update={"data": str(data)})
    with pytest.raises(DatasetError, match=re.escape(wanted)):
        asyncio.run(run_ue(settings))


def test_a_plain_start_with_data_of_another_shape_ends_with_status_2_and_one_sentence(laid, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for one, array in {**OWN, "inputs": np.zeros((6, 5), np.float32)}.items():
        np.save(data / f"{one}.npy", array)
    laid["ue-0"].file.write_text(f'data = "{data}"\n{laid["ue-0"].file.read_text()}')
    command = [sys.executable, "-c", "from hpfl.cli import main; main()", "ue", str(laid["ue-0"].file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("hpfl: ")]
    assert len(said) == 1
    assert "inputs of shape (5,) and type float32 came, wanted shape (1, 28, 28) (input_shape)" in said[0]


def test_a_number_or_roster_beyond_the_experiment_is_told(laid):
    changed(laid["ue-0"], ("number = 0", "number = 7"))
    assert "number is 7; the experiment has 1 UEs" in wrong(checked(laid["ue-0"]))["experiment"]
    changed(laid["edge-0"], ("number = 0", "number = 3"))
    assert "number is 3" in wrong(checked(laid["edge-0"]))["experiment"]
