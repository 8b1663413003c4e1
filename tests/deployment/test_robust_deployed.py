"""Robust combine rules in a deployment: the audit redoes them, and a hostile UE or edge does little harm."""

import json

import numpy as np
import pytest
from deployment_nodes import Nodes, audit_script
from test_misleading import Lying

from hpfl.deployment.audit import AuditLog
from hpfl.deployment.deployed_run import refuse_what_only_a_simulator_can
from hpfl.deployment.settings import SettingsError

AT_THE_CLOUD = {
    "median": {},
    "geometric-median": {"iterations": 5},
    "centred-clipping": {"tau": 0.0},
    "norm-bounding": {"ratio": 0.9},
}


@pytest.mark.parametrize("rule", AT_THE_CLOUD)
def test_the_audit_redoes_a_robust_rule_of_a_deployed_run(certificates, tmp_path, rule):
    options = AT_THE_CLOUD[rule]
    chosen = [f"training.combine={rule}", *(f"training.combine_options.{k}={v}" for k, v in options.items())]
    with Nodes(certificates, *chosen, "training.edge_combine=median", tiny=True) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        deployed = nodes.play()
    assert audit_script.audit(tmp_path)["rounds"] == len(deployed) == 3
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert lines[1]["combine"] == {"name": rule, "options": options}
    lines[2]["shares"][0] += 0.01
    (tmp_path / "audit.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(audit_script.AuditError, match="round 2: the shares"):
        audit_script.audit(tmp_path)


def test_a_deployment_refuses_to_play_attacks(certificates):
    said = 'attack is "ipm"; attacks are a test bench of simulated runs'
    attacked = Nodes(certificates, "hostile.attack=ipm", "hostile.ues=[0]", tiny=True)
    with attacked as nodes, pytest.raises(SettingsError, match=said):
        refuse_what_only_a_simulator_can(nodes.config)


class AtTheNormBound:
    """The opposite, as long as the bound lets pass: four times a running median of norms, of which it has an idea.

    It sends twice that, which is scaled down to the bound; only what is far above is left out.
    """

    def __init__(self):
        self.norms = []

    def __call__(self, update):
        norm = float(np.linalg.norm(update))
        self.norms.append(norm)
        wanted = 8.0 * max(float(np.median(self.norms)), norm)
        return (-update * (wanted / norm)).astype(update.dtype)


def accuracy_of_honest(certificates, hostile, *rules):
    """Mean personalised accuracy of the honest UEs after a hundred rounds of 3 edges with 3 UEs each."""
    shape = ["network.edges=3", "network.ues_per_edge=3", "data.samples_per_ue=[20, 60]", "evaluation.test_samples=40"]
    plan = ["planning.planner=full", "planning.max_edges=3", "training.rounds=100", "evaluation.every=1000"]
    with Nodes(certificates, *shape, *plan, *rules) as nodes:
        nodes.start_cloud()
        for edge in range(3):
            nodes.start_edge(edge)
        for ue in range(9):
            honest = nodes.learner(ue, nodes.experiment)
            nodes.start_ue(ue, learner=Lying(honest, update=AtTheNormBound()) if ue in hostile else honest)
        nodes.play()
        nodes.deployment.executor.evaluate(nodes.state.params, nodes.state.round)
        figures = nodes.deployment.executor.evaluation()["personalised_accuracy"]
    found = float(np.delete(figures, hostile).mean())
    print(f"hostile UEs {hostile}, {' '.join(rules) or 'mean'}: {100 * found:.1f} %")
    return found


@pytest.mark.slow
def test_one_hostile_ue_of_nine_does_little_harm_to_a_median_or_to_clipping(certificates):
    assert accuracy_of_honest(certificates, [4], "training.edge_combine=median") > 0.88
    assert accuracy_of_honest(certificates, [4], "training.edge_combine=norm-bounding") > 0.88


@pytest.mark.slow
def test_a_whole_hostile_edge_does_little_harm_to_a_robust_rule_at_the_cloud(certificates):
    edge = [3, 4, 5]
    assert accuracy_of_honest(certificates, edge) < 0.5
    assert accuracy_of_honest(certificates, edge, "training.combine=norm-bounding") > 0.9
