"""Statements hold, fail or stay open by their interval; a claim is as good as its weakest statement."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.reporting.intervals import arithmetic
from hpfl.studies.claims import CLAIMS, LEAST_SEEDS, Statement, controlled, judge


def statement(values, claim="C3", **bounds):
    return Statement(claim=claim, text="t", unit="share", values=tuple(values), **(bounds or {"least": 0.0}))


def test_a_difference_that_is_surely_positive_holds():
    assert statement([0.10, 0.11, 0.12, 0.10, 0.11]).verdict == "holds"


def test_a_difference_that_is_surely_negative_does_not_hold():
    assert statement([-0.10, -0.11, -0.12, -0.10, -0.11]).verdict == "does not hold"


def test_a_difference_around_nothing_is_inconclusive():
    assert statement([0.1, -0.1, 0.05, -0.05, 0.01]).verdict == "inconclusive"


def test_four_seeds_decide_nothing():
    assert statement([1.0, 1.1, 1.0, 1.1]).verdict == "inconclusive"
    assert LEAST_SEEDS == 5


def test_no_seeds_decide_nothing():
    found = judge([statement([])])[0]
    assert (found["verdict"], found["estimate"], found["seeds"]) == ("inconclusive", None, 0)


@pytest.mark.parametrize(
    ("centre", "verdict"), [(0.0, "holds"), (0.009, "inconclusive"), (0.02, "does not hold"), (-0.02, "does not hold")]
)
def test_almost_the_same_means_within_the_margin(centre, verdict):
    values = [centre + delta for delta in (-0.002, -0.001, 0.0, 0.001, 0.002)]
    assert statement(values, least=-0.01, most=0.01).verdict == verdict


def test_a_claim_is_as_good_as_its_weakest_statement():
    sure, open_, wrong = [1.0, 1.1, 1.2, 1.0, 1.1], [1.0, -1.0, 0.5, -0.5, 0.1], [-1.0, -1.1, -1.2, -1.0, -1.1]
    assert judge([statement(sure)])[0]["verdict"] == "holds"
    assert judge([statement(sure), statement(open_)])[0]["verdict"] == "inconclusive"
    found = judge([statement(sure), statement(open_), statement(wrong)])[0]
    assert found["verdict"] == "does not hold"
    assert found["estimate"] == pytest.approx(statistics.fmean(wrong))
    assert len(found["parts"]) == 3


def test_a_claim_about_two_data_sets_does_not_hold_by_one():
    sure = [1.0, 1.1, 1.2, 1.0, 1.1]
    ours = Statement(claim="C1", data="mnist", text="t", unit="points", values=tuple(sure), least=0.0)
    theirs = Statement(claim="C1", data="cifar10", text="t", unit="points", values=tuple(sure), least=0.0)
    assert judge([ours])[0]["verdict"] == "inconclusive"
    assert "nothing was run on cifar10" in judge([ours])[0]["decided_by"]
    assert judge([ours, theirs])[0]["verdict"] == "holds"


def test_claims_come_in_the_papers_order():
    found = judge([statement([1.0], claim=claim) for claim in reversed(CLAIMS)])
    assert [claim["id"] for claim in found] == list(CLAIMS)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_interval_holds_the_mean_and_widens_with_the_spread(values):
    found = arithmetic(values)
    assert found.low <= found.mean <= found.high
    wider = arithmetic([found.mean + 2 * (value - found.mean) for value in values])
    assert wider.high - wider.low == pytest.approx(2 * (found.high - found.low), rel=1e-6, abs=1e-6)


def test_the_interval_of_five_is_students():
    found = arithmetic([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.high - found.mean == pytest.approx(2.7764451 * statistics.stdev([1, 2, 3, 4, 5]) / 5**0.5)


def test_too_few_seeds_for_a_verdict_are_said():
    few = Statement(claim="C1", text="more by", values=(1.0, 1.1), unit="points", data="mnist", least=0.0)
    judged = judge([few])[0]
    assert judged["verdict"] == "inconclusive"
    assert judged["decided_by"] == "more by (seeds: 2; a verdict needs 5)"


@given(st.lists(st.floats(-10, 10).map(lambda value: round(value, 3)), min_size=5, max_size=9), st.booleans())
def test_at_five_per_cent_a_verdict_is_that_of_the_95_per_cent_interval(values, two_sided):
    ends = {"least": -1.0, "most": 1.0} if two_sided else {"least": 0.0}
    statement = Statement(claim="C1", text="", unit="", values=tuple(values), **ends)
    found = statement.interval
    inside = found.low > statement.least and found.high < statement.most
    outside = found.high < statement.least or found.low > statement.most
    edge = min(abs(end - bound) for end in (found.low, found.high) for bound in ends.values())
    if edge > 1e-9:  # an interval that ends at the range's end to rounding may fall either way
        assert statement.verdict == ("holds" if inside else "does not hold" if outside else "inconclusive")


def test_of_many_statements_those_that_chance_would_decide_are_not():
    rng = np.random.default_rng(0)
    chance = [
        Statement(claim="C1", text="", unit="", values=tuple(rng.normal(0.0, 1.0, 5)), least=0.0) for _ in range(400)
    ]
    assert sum(one.verdict != "inconclusive" for one in chance) == pytest.approx(20, abs=10)  # one in twenty
    assert sum(one.verdict != "inconclusive" for one in controlled(chance)) <= 1
    sure = [Statement(claim="C1", text="", unit="", values=tuple(rng.normal(9.0, 1.0, 5)), least=0.0)] * 300
    decided = [one for one in controlled([*chance, *sure]) if one.verdict != "inconclusive"]
    assert sum(one.values in [statement.values for statement in chance] for one in decided) <= 0.1 * len(decided)
    assert sum(one.values == sure[0].values for one in decided) == 300


def test_the_level_is_benjamini_and_hochbergs():
    made = [
        Statement(
            claim="C1", text="", unit="", values=(centre - 1, centre - 0.5, centre, centre + 0.5, centre + 1), least=0.0
        )
        for centre in (0.6, 1.0, 1.4, 2.0, 4.0)
    ]
    ordered = sorted(one.p_value for one in made)
    level = max(p for rank, p in enumerate(ordered, 1) if p <= 0.05 * rank / 5)
    assert {one.level for one in controlled(made)} == {level}
    assert 0 < sum(one.verdict == "holds" for one in controlled(made)) < 5


def test_fewer_than_five_seeds_are_no_test():
    few = Statement(claim="C1", text="", unit="", values=(9.0, 9.1), least=0.0)
    assert controlled([few])[0].verdict == "inconclusive"
