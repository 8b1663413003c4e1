"""Coded rounds over the network: both hops, the way down, and errors that change only with what has counted."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from deployment_nodes import SMALL, Nodes, audit_script
from safetensors.numpy import load_file, save_file
from test_combined_updates import forged
from test_contract import simulated

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.deployment import parent
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.checks import CheckedSketch
from hpfl.deployment.from_edges import FromEdges
from hpfl.deployment.gathering import edge_noise
from hpfl.deployment.refusal import RefusedError
from hpfl.learning.codecs.rounding import Rounding
from hpfl.learning.uplink import Uplink
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

TOP = 'learning.uplink=[{name = "top-k", share = 0.05}, {name = "rounding", bits = 8}]'
NARROW = ["learning.model=ue_and_rule_parts:narrow", "learning.dtype=float64"]
IN_TURN = ["planning.planner=round-robin", "planning.max_edges=1"]


def records(config):
    """What the simulator records of every round."""
    dataset, found = load_dataset(config.data.dataset), []
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)
    train(simulation.start, simulation.parts, simulation.settings, lambda state, record: found.append(record) or True)
    return found


@pytest.mark.parametrize(
    "changes",
    [
        ["learning.uplink=ternary", *IN_TURN, "training.broadcast=all", "training.rounds=4"],
        [TOP, *IN_TURN, "training.broadcast=scheduled", "training.rounds=5"],
        ["training.edge_rounds=2", "network.reuse=2"],
    ],
)
def test_bits_seconds_and_joules_of_the_way_down_are_the_simulated_ones(certificates, changes):
    changes = [*NARROW, "network.downlink=charged", *changes]
    expected, seen = records(hpfl.load("quickstart-paper", overrides=[*SMALL, *changes])), []
    with Nodes(certificates, *changes) as nodes:
        nodes.start_all()
        nodes.play(watch=lambda state, record: seen.append(record) or True)
    for name in ("downlink_bits", "broadcast_s", "downlink_j"):
        np.testing.assert_allclose(*([getattr(one, name) for one in some] for some in (seen, expected)), rtol=1e-12)
    assert all(one.broadcast_s > 0 for one in expected)


def test_who_holds_the_model_before_is_sent_the_step_alone(certificates, monkeypatch):
    """A message of one edge is forwarded; edges that did not hear are sent all steps that they lack, or the model."""
    sent, plain = [], parent.step_frames

    def watched(tag, steps):
        frames = plain(tag, steps)
        sent.append((tag.node, tag.round, len(steps), sum(map(len, frames))))
        return frames

    monkeypatch.setattr(parent, "step_frames", watched)
    way_down = ["network.downlink=charged", "training.broadcast=scheduled", "training.rounds=4"]
    with Nodes(certificates, *NARROW, TOP, *IN_TURN, *way_down) as nodes:
        nodes.start_all()
        nodes.play()
        spec, updates = nodes.experiment.spec, nodes.experiment.updates
    by_cloud = {(round_number, count) for node, round_number, count, _ in sent if node == "cloud"}
    assert by_cloud == {(1, 1), (2, 2), (3, 2), (4, 2)}
    assert {node for node, *_ in sent} == {"cloud", "edge-0", "edge-1"}
    one = updates.edge_spec(0).nbytes
    assert all(one * count <= size <= one * count + 400 for *_, count, size in sent)
    assert spec.nbytes > 4 * one


def test_bytes_on_the_wire_are_the_bits_that_are_counted(certificates):
    for uplink in ("ternary", "rounding", "top-k", "random-k"):
        nodes = Nodes(certificates, f"learning.uplink={uplink}")
        nodes.loop.__exit__()
        bits = nodes.experiment.sending.codings[0].bits(nodes.experiment.updates.num_travelling, 32)
        assert 8 * nodes.experiment.updates.edge_spec(0).nbytes == pytest.approx(bits, rel=0.02)


FEEDBACK = [*NARROW, TOP, "network.downlink=charged", "training.rounds=6"]


def close_to_simulated(changes, deployed):
    expected = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *changes]))
    assert len(deployed) == len(expected)
    return all(float((one - other).abs().max()) <= 1e-9 for one, other in zip(deployed, expected, strict=True))


@pytest.mark.parametrize("name", ["ue-0", "edge-1"])
def test_a_coder_that_is_killed_goes_on_from_what_it_had_left_unsent(certificates, name):
    def killed(state, record):
        if state.round == 3:
            nodes.kill(name)
            number = int(name[-1])
            nodes.start_ue(number) if name.startswith("ue") else nodes.start_edge(1, listen=nodes.edge_ports[1])
        return True

    with Nodes(certificates, *FEEDBACK) as nodes:
        nodes.start_all()
        deployed = nodes.play(watch=killed)
    assert close_to_simulated(FEEDBACK, deployed)


def test_coders_go_back_with_a_cloud_that_goes_back(certificates, tmp_path):
    states, audit = [], AuditLog(tmp_path, "full")
    with Nodes(certificates, *FEEDBACK) as nodes:
        nodes.start_all(audit=audit)
        first = nodes.play(4, watch=lambda state, record: states.append(state) or True)
        nodes.stop_cloud()
        nodes.start_cloud(audit=audit, state=states[1], port=nodes.cloud_port)
        deployed = nodes.play()
    assert close_to_simulated(FEEDBACK, [*first[:2], *deployed])
    assert audit_script.audit(tmp_path)["superseded"] == 2


def test_an_update_that_did_not_arrive_changes_nobodys_error(certificates, monkeypatch):
    """The first update of edge 1 is lost at the cloud: it is coded again, with the errors from before."""
    lost, accept = [], FromEdges.accept

    def losing(self, side, number, arrival):
        if number == 1 and not lost:
            lost.append(arrival.vector())
            raise RefusedError("late", "lost")
        if number == 1 and len(lost) == 1:
            lost.append(arrival.vector())
        accept(self, side, number, arrival)

    monkeypatch.setattr(FromEdges, "accept", losing)
    with Nodes(certificates, *FEEDBACK) as nodes:
        nodes.start_all()
        nodes.play(2)
    assert np.array_equal(*lost)


@pytest.mark.parametrize("spoilt", [None, 1e-3])
def test_who_cannot_take_a_step_is_sent_the_model_and_never_ends_with_another(certificates, spoilt):
    """An edge and a UE have lost the model that a step begins with, or hold a model that is not quite it."""

    def lose(state, record):
        for node in (nodes.edges[0], nodes.ues[3]):
            held = node.up._model
            node.up._model = None if spoilt is None or held is None else replace(held, vector=held.vector + spoilt)
        return True

    changes = [*FEEDBACK[:-1], "training.rounds=3"]
    with Nodes(certificates, *changes) as nodes:
        nodes.start_all()
        deployed = nodes.play(watch=lose)
    assert close_to_simulated(changes, deployed)


def changed_array(run, name, change):
    """Change an array beside the first round of a log."""
    (path,) = (run / "audit").glob("round-00000001-*.safetensors")
    arrays = load_file(path)
    change(arrays[name])
    save_file(arrays, path)


def flipped(messages):
    messages[0, -1] ^= 1


@pytest.fixture(scope="module")
def coded_run(certificates, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coded")
    with Nodes(certificates, *FEEDBACK[:-1], "training.rounds=2") as nodes:
        nodes.start_all(audit=AuditLog(folder, "full"))
        nodes.play()
    return folder


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda run: changed_array(run, "messages", flipped), "is not what its message says"),
        (lambda run: forged(run, lambda lines: lines[2]["step"].update(kind="forwarded")), "gives another model"),
        (lambda run: forged(run, lambda lines: lines[0]["codings"].update(seed=5)), "gives another model"),
        (lambda run: forged(run, lambda lines: lines[1].pop("step")), "gives another model"),
    ],
)
def test_the_audit_finds_forged_messages_and_steps(coded_run, tmp_path, forge, said):
    run = tmp_path / "run"
    shutil.copytree(coded_run, run)
    assert audit_script.audit(run)["updates"] == 4
    forge(run)
    with pytest.raises(audit_script.AuditError, match=said):
        audit_script.audit(run)


def test_what_codings_will_add_is_foretold_as_in_the_simulator(certificates):
    """UEs' part is theirs to the last digits; the edge's own part is an estimate, for nobody has its mean yet."""
    changes = [*NARROW, "learning.uplink=auto", "planning.planner=coding_planners:in_turn"]
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *changes])
    simulation = build_simulation(
        config, load_dataset(config.data.dataset), device=torch.device("cpu"), stopwatch=lambda: 0.0
    )
    expected = simulation.parts.executor.observe(simulation.start).codings
    with Nodes(certificates, *changes) as nodes:
        nodes.start_all()
        found = nodes.deployment.executor.observe(nodes.state).codings
        nodes.play(1)
    assert (found.ue_bits, found.edge_bits, found.usual) == (expected.ue_bits, expected.edge_bits, expected.usual)
    assert found.delays == expected.delays
    drawn = np.array(found.delays) == 0
    assert not found.noise[:, ~drawn].any()
    assert not found.noise[:, 0].any()
    ratio = found.noise[:, drawn][:, 1:] / expected.noise[:, drawn][:, 1:]
    assert 0.6 < ratio.min() <= ratio.max() < 1.6


def test_one_ue_alone_adds_its_own_noise_and_its_edge_none():
    chain = Uplink.of([("rounding", Rounding(4))])
    one = CheckedSketch(
        values=np.ones(8), weight=3.0, num_samples=5, ues=np.zeros(0), samples=np.zeros(0), noise=np.array([2.0])
    )
    assert edge_noise([one], np.ones(8), [chain], backhaul=True).tolist() == [2.0]
    assert edge_noise([one, one], np.ones(8), [chain], backhaul=False).tolist() == [1.0]
    assert edge_noise([one, one], np.ones(8), [chain], backhaul=True)[0] > 1.0
    assert edge_noise([one], np.ones(8), [], backhaul=True).size == 0
