import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.problem import APPLIED
from hpfl.training.cloud_step import CloudSettings, DivergedError, remembered, step
from hpfl.training.combine import COMBINES
from hpfl.training.present_edges import nobody
from hpfl.training.state import EdgeUpdate, initial_state


def settings_of(**changes):
    values = {
        "rounds": 1,
        "outer_lr": 0.5,
        "bandwidth_hz": 1e6,
        "rho": 0.5,
        "phi": 1.0,
        "max_edges": 2,
        "staleness_bound": 5,
    }
    return CloudSettings(**(values | changes))


def update(member, values, weight=1.0):
    tensor = torch.tensor(values, dtype=torch.float32)
    return EdgeUpdate(member=member, base_round=0, update=tensor, weight=weight, importance=0.0)


def at(params, round_number=0):
    return initial_state(torch.tensor(params), num_edges=9, num_ues=9).but(round=round_number)


def test_the_step_divides_by_the_number_that_arrived():
    moved = step(at([0.0, 0.0]), [update(0, [1.0, 0.0]), update(3, [3.0, 2.0])], settings_of())
    assert moved.params.tolist() == [-1.0, -0.5]
    assert moved.shares == {0: 0.5, 3: 0.5}


def test_without_updates_the_model_and_the_rule_stay():
    state = at([1.0, 1.0, 1.0]).but(cloud_rule={"steps": 3})
    moved = step(state, [], settings_of())
    assert moved.params is state.params
    assert (moved.shares, moved.rule) == ({}, {"steps": 3})


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_never_takes_a_value_that_is_not_finite(bad):
    with pytest.raises(DivergedError, match=r"edges \[7\]"):
        step(at([0.0]), [update(7, [bad])], settings_of())


@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=2, max_size=4),
    weights=st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4),
)
def test_no_step_depends_on_the_order_of_arrival(rows, weights):
    updates = [update(member, row, weights[member]) for member, row in enumerate(rows)]
    for name in COMBINES:
        settings = settings_of(combine=COMBINES.get(name))
        results = [step(at([0.0, 0.0, 0.0]), order, settings) for order in itertools.permutations(updates)]
        assert all(torch.equal(results[0].params, other.params) for other in results)
        assert all(results[0].shares == other.shares for other in results)


def planned(*edges):
    plan = nobody(3)
    plan.scheduled[list(edges)] = True
    return plan


def test_a_planner_is_told_of_shares_that_are_not_those_of_its_plan_and_of_no_others():
    def after(memory, plan, *arrivals, **changes):
        return remembered(memory, plan, step(at([0.0], 3), arrivals, settings_of(**changes)).shares)

    one, two = update(0, [1.0]), update(1, [1.0])
    failed = after({"own": 1}, planned(0, 1), one)
    assert failed == {"own": 1, APPLIED: {"0": 1.0}}
    assert after(failed, planned(0, 1), one, two) == {"own": 1}
    assert after(failed, planned()) == failed  # nobody was there: the round before is still to be learned from
    assert after({}, planned(0, 1), one, update(1, [1.0], weight=3.0)) == {APPLIED: {"0": 0.25, "1": 0.75}}
    assert after({}, planned(0), one, staleness_discount=1.0) == {APPLIED: {"0": 0.25}}
