"""Combine rules in a deployment: edges that keep all updates, and an audit that follows another package's rule."""

import json

import numpy as np
import pytest
import torch
from deployment_nodes import Nodes, audit_script

from hpfl.deployment.audit import Aggregated, AuditLog, Uploaded
from hpfl.deployment.averaging import KeptUpdates, RunningMean, joined_by
from hpfl.deployment.named_model import NamedModel
from hpfl.training.cloud_step import CloudSettings, step
from hpfl.training.combine import COMBINES, CombineError
from hpfl.training.edge_round import EdgeSettings
from hpfl.training.state import EdgeUpdate, initial_state
from ue_and_rule_parts import momentum

RULE = "ue_and_rule_parts:{}"
SETTINGS = {"rounds": 9, "outer_lr": 0.5, "bandwidth_hz": 1.0, "rho": 0.5, "phi": 1.0, "max_edges": 3}


def edge_of(rule, **changes):
    return joined_by(EdgeSettings(outer_lr=0.1, combine=rule, **changes), num_ues=5, length=2, bytes_each=4)


def test_an_edge_whose_rule_needs_all_updates_keeps_them_and_one_liar_changes_nothing():
    updates = edge_of(COMBINES.get(RULE.format("trimmed_mean"), trim=0.2))
    assert isinstance(updates, KeptUpdates)
    honest = {ue: np.array([1.0 + ue, 2.0 - ue], dtype=np.float32) for ue in range(4)}
    for liar in (1e3, 1e6):
        updates.restart()
        for ue, vector in [(4, np.full(2, liar, dtype=np.float32)), *honest.items()]:
            updates.add(vector, 1.0, ue)
        assert updates.value().tolist() == [3.0, 1.0]


def test_an_edges_rule_remembers_from_round_to_round_and_the_mean_keeps_nothing():
    updates = edge_of(momentum)
    for expected in (0.5, 0.75):
        updates.restart()
        updates.add(np.ones(2, dtype=np.float32), 1.0, 0)
        assert updates.value().tolist() == [expected, expected]
    assert isinstance(edge_of(None), RunningMean)


def test_an_edge_that_could_not_keep_its_ues_updates_does_not_start():
    with pytest.raises(CombineError, match="those of 5 UEs take 4e-08 GB"):
        edge_of(momentum, memory_gb=3e-8)


def named(state):
    return NamedModel.after(state.params.numpy(), run="r", node="cloud", round_number=state.round)


def logged(tmp_path, name, options, rounds=4):
    """A log of some rounds with a rule; the cloud was killed after the third and went on from the second."""
    log, rule = AuditLog(tmp_path, "full"), COMBINES.get(RULE.format(name), **options)
    settings = CloudSettings(**SETTINGS, staleness_bound=9, combine=rule, staleness_discount=0.5)
    state = initial_state(torch.zeros(3), num_edges=3, num_ues=3)
    states = [state]
    log.start(named(state), rule=state.cloud_rule)
    for number in [1, 2, 3, 3, *range(4, rounds + 1)]:
        if number == 3 and len(states) == 4:
            log.start(named(states[2]), rule=states[2].cloud_rule)
        before = states[number - 1]
        came = [
            EdgeUpdate(
                member=edge,
                base_round=number - 1 - (edge == 1),
                update=torch.sin(torch.arange(3.0) + edge * 5 + number),
                weight=1.0 + edge,
                importance=1.0,
            )
            for edge in range(3)
            if edge != 1 or number > 1
        ]
        taken = step(before, came, settings)
        states[number:] = [before.but(round=number, params=taken.params, cloud_rule=taken.rule)]
        parts = [
            Aggregated(
                member=one.member,
                base_round=one.base_round,
                weight=one.weight,
                factor=float((1.0 + before.round - one.base_round) ** -0.5),
                update=one.update.numpy(),
                ues=[one.member],
            )
            for one in came
        ]
        rule_as_written = {"name": RULE.format(name), "options": options}
        seconds = {"planned_s": 1.0, "measured_s": 1.0}
        came = Uploaded(before=named(before), parts=parts, outer_lr=0.5, combine=rule_as_written, **seconds)
        log.stepped(came, named(states[number]), taken.shares)
    return tmp_path


@pytest.mark.parametrize(("name", "options"), [("momentum", {}), ("trimmed_mean", {"trim": 0.4})])
def test_the_audit_follows_a_rule_of_another_package_through_a_restart(tmp_path, name, options):
    counts = audit_script.audit(logged(tmp_path, name, options))
    assert (counts["rounds"], counts["superseded"], counts["starts"]) == (4, 1, 2)


def forged(run, change):
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    change(lines)
    (run / "audit.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[2]["shares"].__setitem__(0, 0.9), "round 2: the shares"),
        (lambda lines: lines[4]["rule"]["parts"]["steps"].update(value=7), "is not what the rule remembered"),
        (lambda lines: lines[1]["combine"].update(name="mean"), "round 1: the shares"),
    ],
)
def test_the_audit_finds_forged_shares_states_and_rules(tmp_path, change, said):
    forged(logged(tmp_path, "momentum", {}), change)
    with pytest.raises(audit_script.AuditError, match=said):
        audit_script.audit(tmp_path)


def test_a_deployed_run_with_a_rule_that_remembers_passes_the_audit(certificates, tmp_path):
    with Nodes(certificates, f"training.aggregation={RULE.format('momentum')}", tiny=True) as nodes:
        nodes.start_all(audit=AuditLog(tmp_path, "full"))
        deployed = nodes.play()
        assert nodes.state.cloud_rule["steps"] == len(deployed)
    assert audit_script.audit(tmp_path)["rounds"] == len(deployed)
    line = json.loads((tmp_path / "audit.jsonl").read_text().splitlines()[1])
    assert line["shares"] == [0.25, 0.25]
