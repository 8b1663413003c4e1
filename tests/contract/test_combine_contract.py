"""The law of every combine rule in the registry, and of rules as another package would bring them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.training.combine import COMBINES, Contribution, combined

RULES = [*COMBINES.names(), "ue_and_rule_parts:trimmed_mean", "ue_and_rule_parts:momentum"]
ROWS = st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=2), min_size=1, max_size=4)
WEIGHTS = st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4)


@pytest.mark.parametrize("name", RULES)
@settings(deadline=None, max_examples=20)
@given(rows=ROWS, weights=WEIGHTS)
def test_a_rule_answers_alike_in_any_order_and_shares_out_one_at_most(name, rows, weights):
    came = [Contribution(k, torch.tensor(row), weights[k], age=k) for k, row in enumerate(rows)]
    before = [one.update.clone() for one in came]
    answers = [combined(COMBINES.get(name), order, {}) for order in itertools.permutations(came)]
    by_member = [
        {one.member: share for one, share in zip(order, answer.shares.tolist(), strict=True)}
        for order, answer in zip(itertools.permutations(came), answers, strict=True)
    ]
    assert all(torch.equal(answers[0].direction, answer.direction) for answer in answers)
    assert all(shares == by_member[0] for shares in by_member)
    assert sum(by_member[0].values()) <= 1 + 1e-9
    assert all(torch.equal(one.update, old) for one, old in zip(came, before, strict=True))


@pytest.mark.parametrize("name", [*COMBINES.names(), RULES[-2]])
def test_a_mean_of_any_kind_agrees_with_those_who_agree(name):
    came = [Contribution(k, torch.tensor([1.5, -2.0]), 1.0 + k) for k in range(3)]
    agreed = combined(COMBINES.get(name), came, {}).direction
    assert torch.allclose(agreed, torch.tensor([1.5, -2.0], dtype=torch.float64))


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_streams_is_the_mean_by_weight(name):
    sizes = (1.0, 1.0, 1.0, 100.0)  # one that bounds would shorten
    came = [Contribution(k, size * torch.tensor([k + 0.5, 1.0 / (k + 1)]), 1.0 + k) for k, size in enumerate(sizes)]
    found = combined(COMBINES.get(name), came, {})
    by_weight = sum(one.update.double() * (one.weight / 10.0) for one in came)
    assert torch.allclose(found.direction, by_weight) == COMBINES.part(name).traits["streams"]
