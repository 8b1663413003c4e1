"""Whatever dies, goes silent or comes twice: rounds go on, and the audit log recomputes to the last bit."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from deployment_nodes import Nodes, Proxy, Tiny, audit_script, until

from hpfl.deployment.audit import AuditLog
from hpfl.learning import NonFiniteUpdateError
from hpfl.planning.checking import PlanError
from hpfl.planning.planners import PLANNERS
from hpfl.training.cloud_step import DivergedError

MANY = "training.rounds=1000"


def log_of(folder):
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == "round"]


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_a_ue_killed_mid_upload_is_left_out_and_comes_back(certificates, tmp_path):
    pace = {"paced": True, "time_scale": 3.0}
    with Nodes(certificates, MANY, tiny=True, timing={"gather_s": 5.0}, **pace) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        timer = later(0.5, lambda: nodes.kill("ue-1"))
        nodes.play(2)
        timer.join()
        nodes.start_ue(1)
        until(lambda: 1 in nodes.edges[0].ues.hub.children)
        nodes.play(2)
    rows = log_of(tmp_path)
    assert [sorted(row["members"]) for row in rows] == [[0, 1]] * 4
    assert rows[0]["ues"] == [[0], [2, 3]]
    assert rows[-1]["ues"] == [[0, 1], [2, 3]]
    assert audit_script.audit(tmp_path)["rounds"] == 4


@pytest.mark.parametrize("name", ["edge-1", "ue-2"])
def test_a_node_asked_to_stop_in_a_round_ends_once_its_update_has_arrived(certificates, tmp_path, name):
    with Nodes(certificates, MANY, tiny=True, timing={"gather_s": 5.0}, paced=True, time_scale=3.0) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        node = nodes.edges[1] if name == "edge-1" else nodes.ues[2]
        stopped = []

        def stop():
            until(lambda: node.up.link.background.is_busy("upload"))
            nodes.loop.run(node.settle(), 30)
            nodes.kill(name)
            stopped.append(name)

        stopping = threading.Thread(target=stop)
        stopping.start()
        nodes.play(1)
        stopping.join()
        nodes.play(1)
    first, second = log_of(tmp_path)
    assert stopped == [name]
    assert first["ues"] == [[0, 1], [2, 3]]
    assert second["ues"] == ([[0, 1]] if name == "edge-1" else [[0, 1], [3]])
    audit_script.audit(tmp_path)


def test_an_edge_killed_and_restarted_rejoins_and_is_not_counted_twice(certificates, tmp_path):
    pace = {"paced": True, "time_scale": 2.0}
    with Nodes(certificates, MANY, tiny=True, timing={"gather_s": 2.0}, **pace) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(1)
        timer = later(0.3, lambda: nodes.kill("edge-1"))
        nodes.play(1)
        timer.join()
        nodes.play(1)
        nodes.start_edge(1, listen=nodes.edge_ports[1])
        until(lambda: 1 in nodes.deployment.cloud.hub.children)
        nodes.play(100, watch=lambda state, record: record.aggregated != (0, 1))  # its UEs come back to it, too
        nodes.play(1)
    rows = log_of(tmp_path)
    members = [row["members"] for row in rows]
    assert members[:3] == [[0, 1], [0], [0]]
    assert members[-2:] == [[0, 1], [0, 1]]
    assert rows[-2]["base_rounds"] == [len(rows) - 2] * 2
    audit_script.audit(tmp_path)


@pytest.mark.parametrize("rounds_lost", [0, 2])
def test_a_cloud_restarted_from_an_older_checkpoint_goes_on_with_the_same_edges(certificates, tmp_path, rounds_lost):
    states = []
    with Nodes(certificates, MANY, "planning.planner=random", "planning.max_edges=1", tiny=True) as nodes:
        audit = AuditLog(tmp_path, "full")
        nodes.start_all(audit=audit)
        nodes.play(4, watch=lambda state, record: states.append(state) or True)
        nodes.stop_cloud()
        nodes.start_cloud(audit=audit, state=states[-1 - rounds_lost], port=nodes.cloud_port)
        nodes.play(4)
    counts = audit_script.audit(tmp_path)
    assert counts["starts"] == 2
    assert counts["superseded"] == rounds_lost
    assert counts["rounds"] == 8 - rounds_lost
    assert counts["updates"] == counts["rounds"]


def test_a_link_that_is_cut_for_a_while_only_delays_its_edge(certificates, tmp_path):
    with Nodes(certificates, MANY, tiny=True, timing={"gather_s": 3.0}) as nodes:
        nodes.start_cloud(audit=AuditLog(tmp_path, "full"))
        proxy = Proxy(nodes.loop, nodes.cloud_port)
        nodes.start_edge(0)
        nodes.start_edge(1, cloud_port=proxy.port)
        for ue in range(4):
            nodes.start_ue(ue)
        nodes.play(2)
        proxy.cut()
        until(lambda: 1 not in nodes.deployment.cloud.hub.children)
        nodes.play(2)
        proxy.mend()
        until(lambda: 1 in nodes.deployment.cloud.hub.children)
        nodes.play(2)
        proxy.close()
    rows = log_of(tmp_path)
    assert [row["members"] for row in rows] == [[0, 1], [0, 1], [0], [0], [0, 1], [0, 1]]
    audit_script.audit(tmp_path)


def test_an_update_pending_across_a_cut_is_kept_while_fresh_enough(certificates, tmp_path):
    """The edge that comes back holds an update on an older model; the books still name that model, so it counts."""
    script = "planning.script=[[0]]"
    with Nodes(certificates, MANY, "planning.planner=scripted", script, tiny=True) as nodes:
        nodes.start_cloud(audit=AuditLog(tmp_path, "full"))
        proxy = Proxy(nodes.loop, nodes.cloud_port)
        nodes.start_edge(0)
        nodes.start_edge(1, cloud_port=proxy.port)
        for ue in range(4):
            nodes.start_ue(ue)
        nodes.play(2)
        proxy.cut()
        until(lambda: 1 not in nodes.deployment.cloud.hub.children)
        proxy.mend()
        until(lambda: 1 in nodes.deployment.cloud.held)
        assert nodes.deployment.cloud.held[1].tag.base_round == 0
        nodes.play(2)
        proxy.close()
    rows = log_of(tmp_path)
    assert rows[-1]["members"] == [0, 1]
    assert rows[-1]["base_rounds"] == [3, 0]
    audit_script.audit(tmp_path)


def test_a_straggler_is_waited_for_only_until_the_deadline(certificates, tmp_path):
    with Nodes(certificates, MANY, tiny=True, timing={"compute_s": 1.0, "gather_s": 0.5}) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(2)
        nodes.learners[3].delay_s = 4.0
        nodes.play(2)
        nodes.learners[3].delay_s = 0.0
        nodes.play(4)
    ues = [row["ues"] for row in log_of(tmp_path)]
    assert ues[3] == [[0, 1], [2]]  # the model of the round before may have reached it in time
    audit_script.audit(tmp_path)


def test_the_fastest_planner_deployed_scales_its_steps_and_the_audit_follows(certificates, tmp_path):
    with Nodes(certificates, MANY, "planning.planner=fastest", "planning.max_edges=1") as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(5)
    assert audit_script.audit(tmp_path)["rounds"] == 5


def test_the_audit_finds_a_forged_update(certificates, tmp_path):
    from safetensors.numpy import load_file, save_file

    with Nodes(certificates, tiny=True) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        nodes.play(2)
    audit_script.audit(tmp_path)
    path = tmp_path / log_of(tmp_path)[0]["file"]
    updates = load_file(path)["updates"].copy()
    updates[0, 0] = np.nextafter(updates[0, 0], 1.0, dtype=updates.dtype)
    save_file({"updates": updates}, path)
    with pytest.raises(audit_script.AuditError, match="not the one that was logged"):
        audit_script.audit(tmp_path)


class Overflowing(Tiny):
    """Computes nothing usable on the model of a round, and no finite loss."""

    def __init__(self, number, experiment, *, since, norm=None):
        super().__init__(number, experiment)
        self.since, self.norm = since, norm

    def update(self, params, *, base_round, edge_round):
        if base_round < self.since:
            return super().update(params, base_round=base_round, edge_round=edge_round)
        if self.norm is None:
            raise NonFiniteUpdateError("the update of group 0 is not finite")
        return np.full_like(params, self.norm / len(params) ** 0.5)

    def evaluate(self, params):
        return np.array([np.inf, np.nan, 0.1, 0.1, np.nan, np.nan])


def overflowing(nodes, ues, **how):
    """Start everybody, some UEs with a learner that overflows."""
    nodes.start_cloud()
    for edge in range(2):
        nodes.start_edge(edge)
    for ue in range(4):
        learner = Overflowing(ue, nodes.experiment, **how) if ue in ues else None
        nodes.start_ue(ue, learner=learner)


@pytest.mark.parametrize("norm", [None, 2e3])
def test_a_model_on_which_nobody_can_compute_ends_the_run_at_once(certificates, norm):
    with Nodes(certificates, MANY, "evaluation.every=2", tiny=True) as nodes:
        overflowing(nodes, range(4), since=2, norm=norm)
        began = time.monotonic()
        with pytest.raises(DivergedError, match="the model after round 2 has diverged"):
            nodes.play()
        assert time.monotonic() - began < nodes.cloud_settings.timing.compute_s / 2
        assert nodes.state.round == 2


@pytest.mark.parametrize(("ues", "edges"), [((3,), [0, 1]), ((2, 3), [0])])
def test_who_cannot_compute_is_left_out_and_holds_nobody_up(certificates, ues, edges):
    with Nodes(certificates, MANY, tiny=True) as nodes:
        overflowing(nodes, ues, since=1)
        began = time.monotonic()
        nodes.play(4)
        assert time.monotonic() - began < nodes.cloud_settings.timing.compute_s / 2
        assert nodes.record.aggregated == tuple(edges)
        assert nodes.record.num_participants == 4 - len(ues)


def test_one_ue_alone_that_cannot_compute_ends_nothing_and_its_edge_waits_for_others(certificates):
    timing = {"gather_s": 0.5, "compute_s": 1.0, "patience_s": 1.0}  # the cloud's patience is at an end many times
    with Nodes(certificates, MANY, "network.edges=1", "network.ues_per_edge=4", tiny=True, timing=timing) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        nodes.start_ue(0, learner=Overflowing(0, nodes.experiment, since=0))
        began = later(4.0, lambda: [nodes.start_ue(ue) for ue in (1, 2)])
        nodes.play(2)
        began.join()
        assert nodes.record.num_participants == 2
        assert nodes.deployment.cloud.state_of(0) != "left out"


def test_one_edge_that_cannot_compute_does_not_end_the_run_while_another_is_away(certificates):
    with Nodes(certificates, MANY, tiny=True, timing={"gather_s": 0.5}) as nodes:
        overflowing(nodes, (2, 3), since=0, norm=2e3)
        nodes.play(2)
        nodes.kill("edge-0")
        later(1.5, lambda: nodes.start_edge(0, listen=nodes.edge_ports[0]))
        nodes.play(1)
        assert nodes.record.aggregated == (0,)
        assert nodes.state.round == 3


def test_a_planner_that_hands_out_more_than_there_is_ends_the_run_with_the_figures(certificates):
    def wide(problem, memory, stream):
        plan, memory = PLANNERS.get("full")(problem, memory, stream)
        wider = {"ue_bandwidth_hz": 8.0 * plan.ue_bandwidth_hz, "edge_bandwidth_hz": 8.0 * plan.edge_bandwidth_hz}
        return replace(plan, **wider), memory

    with Nodes(certificates, MANY, tiny=True) as nodes:
        nodes.start_all()
        nodes.play(1)
        nodes.deployment = replace(nodes.deployment, parts=replace(nodes.deployment.parts, planner=wide))
        with pytest.raises(PlanError, match="round 2: planner wide hands out 40 MHz of 5 MHz"):
            nodes.play(1)
        assert nodes.state.round == 1
