"""Secure sums over real sockets: what is learnt is the mean, whoever falls out, and nothing else whoever lies."""

import pytest
from deployment_nodes import SMALL, Nodes, audit_script
from test_contract import simulated

import hpfl
from hpfl.deployment.audit import AuditLog

CELL = ["secure.aggregation=cell", "network.ues_per_edge=3"]


def expected(*changes):
    return simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *CELL, *changes]))


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [
            "training.weighting=samples",
            "learning.batch_size=4",
            "learning.batches=independent",
            "learning.local_steps=2",
        ],
        ["training.edge_rounds=2", "learning.dtype=float64", "planning.planner=random", "planning.max_edges=1"],
        ["learning.uplink=ternary", "learning.dtype=float64", "training.weighting=samples"],
        ['learning.uplink=["random-k", "rounding"]', "learning.dtype=float64", "training.edge_rounds=2"],
        ["planning.planner=joint", "planning.importance=sketch", "planning.sketch_size=48", "planning.max_edges=1"],
    ],
)
def test_a_secure_round_is_the_simulated_one(certificates, tmp_path, changes):
    with Nodes(certificates, *CELL, *changes, timing={"least_wait_s": 2.0}) as nodes:  # all are in, however busy it is
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        found = nodes.play()
    for one, other in zip(found, expected(*changes), strict=True):
        assert float((one - other).abs().max()) <= 1e-6
    assert audit_script.audit(tmp_path)["rounds"] == len(found)
