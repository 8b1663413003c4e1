"""Guards of the cloud's step: discounts for age, steps that a planner scales, and who hears of the result."""

import numpy as np
import pytest
import torch

import hpfl
from hpfl.planning.problem import Plan
from hpfl.training.cloud_step import CloudSettings, discounted, hearers, step
from hpfl.training.present_edges import nobody
from hpfl.training.state import EdgeUpdate, initial_state

ROTATION = [
    "network.ues_per_edge=1",
    "data.samples_per_ue=[20, 30]",
    "evaluation.test_samples=10",
    "evaluation.every=5",
    "planning.planner=scripted",
    "planning.max_edges=1",
    "training.broadcast=scheduled",
    "training.rounds=80",
    "learning.outer_lr=0.3",
]
"""One edge per round in strict rotation: every update is 19 rounds old."""


def settings_of(**changes):
    values = {"rounds": 1, "outer_lr": 0.5, "bandwidth_hz": 1e6, "rho": 0.5, "phi": 1.0, "max_edges": 2}
    return CloudSettings(**(values | {"staleness_bound": 5} | changes))


def update(base_round, values=(1.0, -2.0)):
    tensor = torch.tensor(values)
    return EdgeUpdate(member=0, base_round=base_round, update=tensor, weight=1.0, importance=0.0)


def a_plan(**changes) -> Plan:
    return Plan(**(vars(nobody(3)) | changes))


def test_an_update_of_age_tau_is_divided_by_a_power_of_one_plus_tau():
    old, new = discounted([update(4), update(7)], this_round=7, settings=settings_of(staleness_discount=0.5))
    torch.testing.assert_close(old.update, update(0).update / 2.0)
    torch.testing.assert_close(new.update, update(0).update)


def test_without_a_discount_updates_are_untouched():
    updates = (update(0),)
    assert discounted(updates, this_round=9, settings=settings_of())[0] is updates[0]


def test_the_scale_multiplies_the_step_and_none_leaves_the_model():
    state = initial_state(torch.zeros(2), num_edges=1, num_ues=1)
    half = step(state, [update(0)], settings_of(), scale=0.5)
    torch.testing.assert_close(half.params, 0.5 * step(state, [update(0)], settings_of()).params)
    assert step(state, [update(0)], settings_of(), scale=0.0).params is state.params


@pytest.mark.parametrize(
    ("configured", "wish", "told"),
    [
        ("auto", None, [True, False, False]),
        ("auto", "all", [True, True, True]),
        ("auto", "scheduled", [True, False, False]),
        ("scheduled", "all", [True, False, False]),
        ("all", "scheduled", [True, True, True]),
    ],
)
def test_a_wish_of_the_plan_counts_where_the_configuration_leaves_it_open(configured, wish, told):
    aggregated = np.array([True, False, False])
    assert hearers(aggregated, a_plan(broadcast=wish), settings_of(broadcast=configured)).tolist() == told


def test_a_plan_may_leave_edges_alone_where_the_configuration_leaves_it_open():
    aggregated, hears = np.array([True, False, False]), np.array([False, True, False])
    plan = a_plan(broadcast="all", hears=hears)
    assert hearers(aggregated, plan, settings_of(broadcast="auto")).tolist() == [False, True, False]
    assert hearers(aggregated, plan, settings_of(broadcast="all")).all()


def worst_loss_of_late(*overrides):
    result = hpfl.run(hpfl.load("quickstart-paper", overrides=[*ROTATION, *overrides]), device="cpu")
    return max(row["meta_loss"] for row in result.rounds[-30:] if row["meta_loss"] is not None)


def test_strict_rotation_diverges_and_a_discount_for_age_prevents_it():
    start = 2.31  # ln 10, about: the loss of an untrained model
    assert worst_loss_of_late() > 1.5 * start
    assert worst_loss_of_late("training.staleness_discount=1.0") < 0.8 * start


def test_fastest_does_not_diverge_even_where_only_called_edges_hear():
    assert worst_loss_of_late("planning.planner=fastest") < 0.6 * 2.31
