import csv
import json

import numpy as np
import pytest
import torch
from deployment_nodes import SMALL, Nodes, audit_script
from safetensors.numpy import load_file

import hpfl
from hpfl.data.sources import load_dataset
from hpfl.deployment.audit import AuditLog
from hpfl.deployment.local import LocalOptions, Supervisor, lay_out
from hpfl.simulation.simulated_run import build_simulation
from hpfl.training.loop import train


def simulated(config):
    """Parameters after every round, in the simulator."""
    dataset = load_dataset(config.data.dataset)
    simulation = build_simulation(config, dataset, device=torch.device("cpu"), stopwatch=lambda: 0.0)
    after = []

    def watch(state, record):
        after.append(state.params.clone())
        return True

    train(simulation.start, simulation.parts, simulation.settings, watch)
    return after


CASES = {
    "full": [],
    "random with stale edges": ["planning.planner=random", "planning.max_edges=1", "training.rounds=6"],
    "samples, mini-batches, local steps": [
        "training.weighting=samples",
        "learning.batch_size=4",
        "learning.batches=independent",
        "learning.local_steps=2",
    ],
    "joint planner on sketches, stale updates discounted": [
        "planning.planner=joint",
        "planning.importance=sketch",
        "planning.sketch_size=48",
        "planning.max_edges=1",
        "training.rounds=6",
        "training.staleness_discount=0.7",
    ],
    "private heads, a coarse uplink that keeps the rest, a rule that needs all": [
        "learning.model=ue_and_rule_parts:narrow",
        "learning.method=ue_and_rule_parts:PrivateHead",
        "learning.uplink=ue_and_rule_parts:Coarse",
        "training.edge_combine=ue_and_rule_parts:trimmed_mean",
        "training.edge_rounds=2",
        "training.rounds=5",
    ],
    "ternary on both hops, one edge a round": [
        "learning.uplink=ternary",
        "learning.dtype=float64",
        "planning.planner=random",
        "planning.max_edges=1",
        "training.rounds=5",
    ],
    "the largest numbers rounded, private heads, two edge rounds, steps coded on the way down": [
        'learning.uplink=[{name = "top-k", share = 0.05}, "rounding"]',
        "learning.model=ue_and_rule_parts:narrow",
        "learning.method=ue_and_rule_parts:PrivateHead",
        "learning.dtype=float64",
        "network.downlink=charged",
        "training.edge_rounds=2",
        "training.rounds=5",
    ],
    "the planner names another coding in every round": [
        "learning.uplink=auto",
        "planning.planner=coding_planners:in_turn",
        "learning.model=ue_and_rule_parts:narrow",
        "learning.dtype=float64",
        "network.downlink=charged",
        "training.rounds=7",
    ],
    "control variates, one edge a round, which is what they count by": [
        "learning.method=scaffold",
        "learning.local_steps=3",
        "learning.batch_size=3",
        "planning.planner=round-robin",
        "planning.max_edges=1",
        "training.staleness_discount=0.5",
    ],
    "two edge rounds in float64": ["training.edge_rounds=2", "learning.dtype=float64"],
}


@pytest.mark.parametrize("case", CASES)
def test_deployed_parameters_are_the_simulated_ones_after_every_round(case, certificates, tmp_path):
    overrides = CASES[case]
    expected = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides]))
    with Nodes(certificates, *overrides) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        deployed = nodes.play()
    assert audit_script.audit(tmp_path)["rounds"] == len(expected)
    assert len(deployed) == len(expected)
    for one, other in zip(deployed, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-6
    assert float((expected[-1] - expected[0]).abs().max()) > 1e-3


def test_separate_processes_give_the_simulated_parameters_after_every_round(tmp_path):
    shape = ["network.ues_per_edge=[1, 2]", "data.held_out_ues=1", "learning.method=scaffold"]
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, *shape, "evaluation.every=1"])
    expected = simulated(config)
    supervisor = Supervisor(lay_out(tmp_path, config, LocalOptions(paced=False)))
    supervisor.start()
    try:
        assert supervisor.watch(lambda: None) == 0
    finally:
        supervisor.stop()
    run = tmp_path / "run"
    deployed = recomputed_rounds(run)
    assert len(deployed) == len(expected)
    for one, other in zip(deployed, expected, strict=True):
        assert float(np.abs(one - other.numpy()).max()) <= 1e-6
    assert set(supervisor.restarts.values()) == {0}
    records = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    assert [record["aggregated"] for record in records] == [[0, 1]] * 3
    summary = json.loads((run / "summary.json").read_text())
    assert summary["completed"]
    assert summary["final_personalised_accuracy"] == pytest.approx(records[-1]["personalised_accuracy"])
    reference = hpfl.run(config, hooks=hpfl.Hooks())
    assert summary["final_meta_loss"] == pytest.approx(reference.summary["final_meta_loss"], abs=1e-5)
    assert summary["final_personalised_accuracy"] == pytest.approx(reference.summary["final_personalised_accuracy"])
    new = "final_held_out_personalised_accuracy"
    assert summary[new] == pytest.approx(reference.summary[new])
    assert [row["held_out"] for row in csv.DictReader((run / "ues.csv").read_text().splitlines())].count("True") == 1
    final = load_file(run / "model.safetensors")
    for name, part in reference.model.items():
        np.testing.assert_allclose(final[name], part.numpy(), atol=1e-6)


def recomputed_rounds(run):
    """Parameters after every round, from the audit log alone."""
    audit_script.audit(run)
    start, *rounds = audit_script.lines_of(run / "audit.jsonl")
    params, memory = load_file(run / start["file"])["params"], audit_script.Memory()
    after = []
    for entry in rounds:
        params, memory = audit_script.recomputed(params, entry, run, memory)
        after.append(params)
    return after
