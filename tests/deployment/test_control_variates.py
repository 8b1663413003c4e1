"""SCAFFOLD over the network: what counts by the UEs heard does so for the cloud, its receivers and the audit."""

import shutil
from types import SimpleNamespace

import pytest
from deployment_nodes import SMALL, Nodes, audit_script
from safetensors.torch import load_file
from test_combined_updates import forged
from test_contract import simulated

import hpfl
from hpfl.deployment import parent
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.model_steps import StepReader
from hpfl.deployment.processes import adapt_ue
from hpfl.deployment.refusal import RefusedError

SCAFFOLD = [
    "learning.method=scaffold",
    'learning.uplink=[{name = "top-k", share = 0.05}, "rounding"]',
    "learning.model=ue_and_rule_parts:narrow",
    "learning.dtype=float64",
    "network.downlink=charged",
    "training.broadcast=scheduled",
    "planning.planner=round-robin",
    "planning.max_edges=1",
    "training.rounds=6",
]


@pytest.fixture(scope="module")
def played(certificates, tmp_path_factory):
    """A run in which a UE and an edge were killed after two rounds, and the cloud after four."""
    folder, heard, plain = tmp_path_factory.mktemp("run"), [], parent.step_frames

    def watched(tag, steps):
        heard.extend(step.heard for step in steps)
        return plain(tag, steps)

    def killed(state, record):
        if state.round == 2:
            nodes.kill("ue-0")
            nodes.kill("edge-1")
            nodes.start_edge(1, listen=nodes.edge_ports[1])
            nodes.start_ue(0)
        return True

    audit = AuditLog(folder, "full")
    with pytest.MonkeyPatch.context() as patch, Nodes(certificates, *SCAFFOLD) as nodes:
        patch.setattr(parent, "step_frames", watched)
        nodes.start_all(audit=audit)
        after = nodes.play(4, watch=killed)
        nodes.stop_cloud()
        nodes.start_cloud(audit=audit, state=nodes.state, port=nodes.cloud_port)
        after += nodes.play()
        out = folder / "personal.safetensors"
        nodes.loop.run(adapt_ue(nodes.ue_settings(3), out), 30)
    return SimpleNamespace(folder=folder, heard=heard, after=after, personal=load_file(out), task=nodes.experiment.task)


def test_rounds_are_the_simulated_ones_whoever_is_killed(played):
    expected = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *SCAFFOLD]))
    assert len(played.after) == len(expected) == 6
    assert all(float((one - other).abs().max()) <= 1e-9 for one, other in zip(played.after, expected, strict=True))
    assert float(expected[-1][played.task.spec.places["scaffold_control"]].abs().max()) > 1e-3


def test_forwarded_messages_say_how_many_ues_are_in_them_and_the_audit_counts_them(played):
    assert set(played.heard) == {2}
    assert audit_script.audit(played.folder)["starts"] == 2


def test_a_ue_takes_the_model_away_without_what_travels_beside_it(played):
    spec = played.task.spec
    assert spec.beside == ("scaffold_control",)
    assert played.personal.keys() == set(spec.names) - set(spec.beside)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda lines: lines[2]["ues"][0].pop(), "round 2: the recurrence gives another model"),
        (lambda lines: lines[2]["counted"].update({"from": 0}), "round 2: the recurrence gives another model"),
        (lambda lines: lines[2]["ues"][0].append(lines[2]["ues"][0][0]), "round 2: a UE was heard twice"),
    ],
)
def test_the_audit_finds_forged_shares_of_the_ues_heard(played, tmp_path, forge, said):
    run = shutil.copytree(played.folder, tmp_path / "run")
    forged(run, forge)
    with pytest.raises(audit_script.AuditError, match=said):
        audit_script.audit(run)


@pytest.mark.parametrize(
    ("method", "heard", "factors"), [("scaffold", 5, [1.0]), ("scaffold", 2, []), ("fedavg", 2, [1.0])]
)
def test_a_step_that_says_of_other_ues_than_there_are_is_refused(certificates, method, heard, factors):
    nodes = Nodes(certificates, *SCAFFOLD[1:], f"learning.method={method}")
    nodes.loop.__exit__()
    step = pb.Step(factor=factors, to=b"b" * 16, heard=heard)
    begin = pb.Begin(since=b"a" * 16, step=[step])
    with pytest.raises(RefusedError, match=f"the updates of {heard} UEs came"):
        StepReader(nodes.experiment.updates).expected(SimpleNamespace(base=b"b" * 16), begin)
