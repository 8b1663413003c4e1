"""What is not wrong here is tried again: wrong clouds, rosters without this node, and nobody there at all."""

import subprocess

import pytest
import tomlkit
from deployment_nodes import SMALL, Nodes, until

import hpfl
from hpfl.cli_deploy_live import supervised
from hpfl.deployment.attaching import Pauses
from hpfl.deployment.deliveries import NobodyError
from hpfl.deployment.deployed_run import build_deployment
from hpfl.deployment.local import LocalOptions, lay_out
from hpfl.deployment.node import SharedWork
from hpfl.deployment.settings import TimingSettings
from hpfl.deployment.ue import Ue

MANY = "training.rounds=1000"


def test_edges_wait_for_the_right_cloud_when_it_was_started_with_a_wrong_key(certificates, lines):
    with Nodes(certificates, MANY, tiny=True, timing={"refused_retry_s": 1.0, "gather_s": 5.0}) as nodes:
        nodes.start_all()
        nodes.play(2)
        nodes.stop_cloud()
        right, port = nodes.cloud_settings, nodes.cloud_port
        wrong = right.model_copy(update={"set": [*right.set, "learning.outer_lr=0.5"], "listen": f"127.0.0.1:{port}"})
        mistaken = build_deployment(wrong, SharedWork(wrong), nodes.loop, run="run-1")
        nodes.loop.run(mistaken.cloud.start(), 10)
        until(lambda: len(lines("turned away")) >= 6)
        assert {line["status"] for line in lines("turned away")} == {"PERMISSION_DENIED"}
        assert any(line["reason"].startswith("configuration: ") for line in lines("lost the parent"))
        nodes.loop.run(mistaken.cloud.hub.stop(), 10)
        assert not any(task.done() for task in nodes.tasks.values())
        nodes.start_cloud(state=nodes.state, port=port)
        nodes.play(2)
        assert nodes.state.round == 4
        assert nodes.record.aggregated == (0, 1)
        assert nodes.record.num_participants == 4


def test_a_node_that_is_on_no_roster_says_so_and_asks_ever_more_slowly(certificates, lines):
    with Nodes(certificates, "network.edges=1", "planning.max_edges=1", tiny=True) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0)
        other = nodes.ue_settings(0)
        other.tls, other.name = certificates.tls("ue-9"), "ue-9"

        async def stranger():
            return Ue(other, SharedWork(other), nodes.learners[0])

        nodes._spawn("stranger", nodes.loop.run(stranger(), 5).run())
        until(lambda: len(lines("turned away")) >= 4)
        assert "identity: 'ue-9' is not among this node's children" in {x["reason"] for x in lines("lost the parent")}
        assert lines("turned away")[3]["next_attempt_s"] > 1.5 * other.timing.retry_s
        assert not nodes.tasks["stranger"].done()


def test_pauses_grow_to_a_minute_where_a_parent_turns_a_node_away_and_to_retry_s_where_it_is_gone():
    pauses = Pauses("ue-0", TimingSettings())
    lost = [pauses.after(0.0, turned_away=False) for _ in range(200)]
    refused = [pauses.after(0.0, turned_away=True) for _ in range(40)]
    assert 0.1 < lost[0] < 0.6
    assert max(lost[:40]) <= 1.5  # a parent that is started again within the minute is found at once
    assert 5.0 < max(lost) < 1.5 * 5.0
    assert 0.1 < refused[0] < 0.6
    assert 60.0 < max(refused) < 1.5 * 60.0
    assert pauses.after(60.0, turned_away=True) > 30.0  # who pushes and is pushed out once a minute
    assert pauses.after(3600.0, turned_away=True) < 0.6  # is another matter than who was attached for an hour
    assert 0.1 < pauses.after(3600.0, turned_away=False) < 0.6


def test_a_cloud_without_any_edge_says_so_and_goes_on_when_one_comes(certificates, lines):
    with Nodes(certificates, MANY, tiny=True, timing={"compute_s": 0.2, "patience_s": 0.5, "gather_s": 0.1}) as nodes:
        nodes.start_cloud()
        playing = nodes.loop.loop.run_in_executor(None, nodes.play, 1)
        until(lambda: lines("no edge has an update"))
        nodes.start_edge(0)
        nodes.start_ue(0)
        until(playing.done)
        assert nodes.state.round == 1


def test_a_cloud_that_gives_up_ends_when_its_patience_is_over(certificates):
    quick = {"compute_s": 0.2, "patience_s": 0.5, "gather_s": 0.1}
    with Nodes(certificates, tiny=True, timing=quick, gives_up=True) as nodes:
        nodes.start_cloud()
        with pytest.raises(NobodyError, match="no edge had an update"):
            nodes.play()


@pytest.mark.slow
def test_a_local_deployment_whose_own_files_disagree_ends_with_an_error(tmp_path, capfd):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "network.ues_per_edge=1", "network.edges=1", MANY])
    timing = {"patience_s": 2.0, "compute_s": 1.0, "gather_s": 0.5, "refused_retry_s": 1.0}
    nodes = lay_out(tmp_path, config, LocalOptions(timing=timing))
    edge = tomlkit.parse(nodes[1].file.read_text())
    edge["set"] = ["learning.outer_lr=0.5"]
    nodes[1].file.write_text(tomlkit.dumps(edge))
    assert supervised(nodes, tmp_path, quiet=True) == 2
    assert "no edge had an update" in capfd.readouterr().err
    assert "turned away" in nodes[1].log.read_text()


@pytest.mark.slow
def test_a_visit_that_nobody_answers_ends_with_status_1(tmp_path):
    """Another attempt may find the edge there: nothing is wrong here."""
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "network.ues_per_edge=1", "network.edges=1"])
    nodes = lay_out(tmp_path, config, LocalOptions(timing={"patience_s": 1.0}))
    command = [*nodes[2].command, "--adapt", "--out", str(tmp_path / "personal.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "hpfl: no model came from 127.0.0.1" in done.stderr
