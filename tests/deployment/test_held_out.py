"""UEs that never train in a deployment: evaluated as newcomers, as in a simulation, and never heard otherwise."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from deployment_nodes import SMALL, Nodes, audit_script, refused

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.deployment import tier_pb2 as pb
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.node_parts import newcomers_among
from hpfl.deployment.processes import adapt_ue
from hpfl.deployment.settings import SettingsError
from hpfl.deployment.status import Board
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train

HELD_OUT = [
    "network.ues_per_edge=3",
    "data.held_out_ues=2",
    "learning.model=ue_and_rule_parts:narrow",
    "learning.dtype=float64",
    "evaluation.every=1",
    "training.rounds=2",
]


def expected(config):
    """Parameters and records of every round, in the simulator."""
    after, told = [], []
    dataset = load_dataset(config.data.dataset)
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)

    def watch(state, record):
        after.append(state.params.clone())
        told.append(record)
        return True

    train(simulation.start, simulation.parts, simulation.settings, watch)
    return after, told


def held_out_columns(record):
    return {name: value for name, value in record.evaluation.items() if name.startswith("held_out_")}


@pytest.mark.parametrize(
    "changes",
    [
        ["learning.method=ditto", "learning.batch_size=4"],
        ["learning.method=scaffold", "secure.aggregation=cell", "network.ues_per_edge=4"],
    ],
    ids=["a personal model", "control variates under masks"],
)
def test_rounds_and_figures_are_the_simulated_ones(certificates, tmp_path, changes):
    changes = [*HELD_OUT, *changes]
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *changes])
    seen, rows = [], []
    with Nodes(certificates, *changes, timing={"least_wait_s": 2.0}) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        board = Board(nodes.deployment.cloud, edges={}, num_ues=config.network.num_ues)
        found = nodes.play(watch=lambda state, record: seen.append(record) or rows.extend(board.rows()) or True)
        new = nodes.experiment.newcomers
        who = min(new)
        report = nodes.deployment.executor.evaluation()
        visit = nodes.loop.run(adapt_ue(nodes.ue_settings(who), tmp_path / "personal.safetensors"), 30)
        computed = {ue: node.metrics.computed._value.get() for ue, node in nodes.ues.items()}
    after, told = expected(config)
    for one, other in zip(found, after, strict=True):
        assert float((one - other).abs().max()) <= 1e-6
    for one, other in zip(seen, told, strict=True):
        assert held_out_columns(one).keys() == held_out_columns(other).keys() != set()
        assert not any(np.isnan(value) for value in held_out_columns(one).values())
        for name, value in other.evaluation.items():
            assert one.evaluation[name] == pytest.approx(value, rel=1e-5, nan_ok=True), name
    assert visit == pytest.approx([report[f"{model}_accuracy"][who] for model in ("global", "personalised")])
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    heard = {ue for line in lines for ues in line.get("ues", []) for ue in ues}
    assert heard == set(range(config.network.num_ues)) - new
    assert {ue for ue, count in computed.items() if not count} == new
    assert {row.node for row in rows if row.state == "held out"} == {f"ue-{ue}" for ue in new}
    assert audit_script.audit(tmp_path)["rounds"] == len(found)


def test_a_newcomer_is_asked_for_figures_alone_and_may_fall_silent(certificates):
    with Nodes(certificates, "data.held_out_ues=1", "evaluation.every=1", "training.rounds=9", tiny=True) as nodes:
        nodes.start_all()
        nodes.play(1)
        (who,) = nodes.experiment.newcomers
        newcomer, ues = nodes.ues[who], nodes.edges[who // 2].ues
        assert (who in ues.hub.onlookers, who in ues.hub.children) == (True, False)
        assert nodes.record.evaluation["held_out_personalised_accuracy"] == 0.75
        nodes.loop.run(newcomer.up.link.say(ues.side.model.tag, sketch=pb.Sketch(weight=1.0, num_samples=7)), 5)
        nodes.loop.run(ues.hub.onlookers[who].stream.send(*ues.side.model.frames(pb.TRAIN)), 5)
        nodes.play(2)
        assert refused(ues.hub) == {"unexpected": 1.0}
        assert newcomer.metrics.computed._value.get() == 0
        nodes.kill(f"ue-{who}")
        nodes.play(1)
        assert np.isnan(nodes.record.evaluation["held_out_personalised_accuracy"])
        assert nodes.record.aggregated == (0, 1)
        assert not ues.side.attendance.left_out()


def test_more_newcomers_than_leave_each_edge_one_that_trains_are_refused():
    config = SimpleNamespace(
        data=SimpleNamespace(held_out_ues=4), network=SimpleNamespace(ues_of_edges=np.array([3, 2]))
    )
    with pytest.raises(SettingsError, match=r"data\.held_out_ues is 4; of 5 UEs at most 3 can be held out"):
        newcomers_among(config)
