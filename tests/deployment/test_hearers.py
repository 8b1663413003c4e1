"""Who hears of a new model is the plan's to say, over the network as in the simulator."""

from dataclasses import replace

import numpy as np
from deployment_nodes import SMALL, Nodes, audit_script
from test_contract import simulated

import hpfl
from hpfl.deployment.audit import AuditLog
from hpfl.planning.set_plans import plan_for_set

CALLED = [[0, 1], [0], [0], [0, 1]]
HEAR = [[0], [0], [0, 1], []]
"""Edge 1 delivers in the first round and is left alone for the second; nobody hears of the fourth."""


def some_hear(problem, memory, stream):
    """Edges as the tables say."""
    turn = memory.get("turn", 0)
    called, hear = (np.isin(np.arange(problem.num_edges), table[turn]) for table in (CALLED, HEAR))
    plan = plan_for_set(problem, called, "some hear", whatever_the_cap=True)
    return replace(plan, broadcast="all", hears=hear), {"turn": turn + 1}


def test_edges_hear_as_the_plan_says_and_the_rounds_are_the_simulated_ones(certificates, tmp_path):
    changes = ["planning.planner=test_hearers:some_hear", "training.broadcast=auto", "training.rounds=4"]
    expected = simulated(hpfl.load("quickstart-paper", overrides=[*SMALL, *changes]))
    seen = []

    def watch(state, record):
        seen.append((state.base_round.tolist(), state.awaiting.tolist(), record.staleness))
        return True

    with Nodes(certificates, *changes) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        deployed = nodes.play(watch=watch)
    assert audit_script.audit(tmp_path)["updates"] == 6
    assert seen == [
        ([1, 0], [True, False], (0, 0)),
        ([2, 0], [True, False], (0,)),
        ([3, 3], [True, True], (0,)),
        ([3, 3], [False, False], (0, 0)),
    ]
    for one, other in zip(deployed, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-6
