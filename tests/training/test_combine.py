"""Combine rules: the mean as ever, shares that say what was done, and answers that are none."""

import numpy as np
import pytest
import torch

import hpfl
from hpfl.assembly import edge_settings
from hpfl.planning.problem import APPLIED
from hpfl.training.cloud_step import CloudSettings, remembered, step
from hpfl.training.combine import COMBINES, Combined, CombineError, Contribution, combined, weighted_mean
from hpfl.training.edge_round import EdgeSettings, check_room
from hpfl.training.present_edges import nobody
from hpfl.training.state import EdgeUpdate, initial_state
from ue_and_rule_parts import momentum, trimmed_mean

TRIMMED = "ue_and_rule_parts:trimmed_mean"


def contribution(member, values, weight=1.0):
    return Contribution(member, torch.tensor(values), weight)


def test_the_mean_is_the_one_by_hand_to_the_last_bit():
    came = [contribution(k, [0.1 * k, 1 / (k + 1)], k + 0.3) for k in range(7)]
    total, expected = sum(one.weight for one in came), torch.zeros(2, dtype=torch.float64)
    for one in came:
        expected += one.update.double() * (one.weight / total)
    assert torch.equal(combined(weighted_mean, came[::-1], {}).direction, expected)


def test_a_trimmed_outlier_has_no_share_and_the_planner_learns_of_it():
    rule = COMBINES.get(TRIMMED, trim=0.25)
    rows = [[0.0, 1.0], [1.0, 0.0], [1e9, 1e9], [0.5, 0.5]]
    arrivals = [
        EdgeUpdate(member=k, base_round=0, update=torch.tensor(row), weight=1.0, importance=0.0)
        for k, row in enumerate(rows)
    ]
    constants = {"rounds": 1, "outer_lr": 1.0, "bandwidth_hz": 1.0, "rho": 0.5, "phi": 1.0, "max_edges": 4}
    state = initial_state(torch.zeros(2), num_edges=4, num_ues=4)
    taken = step(state, arrivals, CloudSettings(**constants, staleness_bound=9, combine=rule))
    assert taken.shares == {0: 0.25, 1: 0.25, 2: 0.0, 3: 0.5}
    plan = nobody(4)
    plan.scheduled[:] = True
    assert remembered({}, plan, taken.shares) == {APPLIED: {"0": 0.25, "1": 0.25, "2": 0.0, "3": 0.5}}
    assert taken.params.tolist() == [-0.75, -0.75]


def test_a_rule_without_a_step_still_remembers():
    state = initial_state(torch.zeros(1), num_edges=1, num_ues=1)
    update = EdgeUpdate(member=0, base_round=0, update=torch.ones(1), weight=1.0, importance=0.0)
    constants = {"rounds": 1, "outer_lr": 1.0, "bandwidth_hz": 1.0, "rho": 0.5, "phi": 1.0, "max_edges": 4}
    rule = CloudSettings(**constants, staleness_bound=9, combine=momentum)
    still = step(state, [update], rule, scale=0.0)
    assert still.params is state.params
    assert still.rule["steps"] == 1
    again = step(state.but(cloud_rule=still.rule), [update], rule)
    assert again.params.tolist() == [-0.75]


def edge_rule(*overrides):
    chosen = [f"training.edge_combine{word}" for word in overrides]
    return edge_settings(hpfl.resolve(hpfl.load("quickstart-paper", overrides=chosen)), memory_gb=1.0).combine


def test_a_rule_that_streams_is_none_of_an_edges_business():
    assert edge_rule() is edge_rule("=mean") is None
    rule = edge_rule(f"={TRIMMED}", "_options.trim=0.4")
    assert rule([contribution(k, [float(k)]) for k in (0, 1, 9)], {}).direction.tolist() == [1.0]
    with pytest.raises(hpfl.ConfigError, match="no combine is called 'medium'; there are mean, median,"):
        edge_rule("=medium")
    with pytest.raises(hpfl.ConfigError, match=r"trim is 0\.5; it should be less than 0\.5"):
        edge_rule(f"={TRIMMED}", "_options.trim=0.5")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Combined(torch.zeros(3, dtype=torch.float64), np.ones(2) / 2),
            r"of shape \(3,\); wanted torch.float64 of shape",
        ),
        (Combined(torch.zeros(2), np.ones(2) / 2), "the direction is torch.float32 of shape"),
        (
            Combined(torch.zeros(2, dtype=torch.float64), np.ones(1)),
            r"shares have shape \(1,\); wanted one for each of 2",
        ),
        (Combined(torch.zeros(2, dtype=torch.float64), np.ones(2)), "shares add up to 2; wanted at most 1"),
        (Combined(torch.zeros(2, dtype=torch.float64), np.ones(2) / 2, [1]), "the state is list; wanted a mapping"),
    ],
)
def test_an_answer_that_is_none_is_refused_in_the_rules_name(found, said):
    def crooked(contributions, state):
        return found

    with pytest.raises(CombineError, match=f"combine rule .*crooked: .*{said}"):
        combined(crooked, [contribution(0, [1.0, 2.0]), contribution(1, [1.0, 2.0])], {})


def test_updates_that_do_not_fit_an_edges_memory_are_refused_beforehand():
    settings = EdgeSettings(outer_lr=0.1, combine=trimmed_mean, memory_gb=0.25)
    check_room(settings, np.array([2, 6]), num_parameters=10**7, bytes_each=4)
    with pytest.raises(CombineError, match=r"those of 7 UEs take 0.28 GB; learning.memory_gb leaves 0.25 GB"):
        check_room(settings, np.array([2, 7]), num_parameters=10**7, bytes_each=4)
    check_room(EdgeSettings(outer_lr=0.1, memory_gb=0.25), np.array([7]), num_parameters=10**7, bytes_each=4)
