"""Statistics over seeds, against what can be worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpfl.reporting.intervals import arithmetic, arrivals, geometric, mean_of_all, paired_ratio

TIMES = st.floats(0.01, 1e4)


def test_the_interval_is_students() -> None:
    found = arithmetic([10.0, 12.0, 14.0])
    assert found is not None
    assert found.half == pytest.approx(4.302653 * 2 / math.sqrt(3))
    assert (found.mean, found.count) == (12.0, 3)
    one = arithmetic([3.0])
    assert one is not None
    assert (one.low, one.high, one.half, one.count) == (None, None, None, 1)
    assert arithmetic([]) is None
    assert geometric([]) is None


def test_a_run_that_never_arrives_takes_the_mean_away_and_is_counted() -> None:
    assert mean_of_all([1.0, None]) is None
    assert mean_of_all([1.0, 3.0]) == arithmetic([1.0, 3.0])
    assert str(arrivals([1.0, None, 2.0])) == "2 of 3"
    assert not arrivals([1.0, None]).all
    assert arrivals([1.0, 0.0]).all
    assert not arrivals([]).all


@given(st.dictionaries(st.integers(0, 9), st.tuples(TIMES, TIMES), min_size=1))
def test_ratios_are_paired_by_seed_and_turn_over(pairs: dict[int, tuple[float, float]]) -> None:
    one = {seed: a for seed, (a, _) in pairs.items()} | {98: 3.0}
    other = {99: 4.0} | {seed: b for seed, (_, b) in reversed(pairs.items())}
    found, turned = paired_ratio(one, other), paired_ratio(other, one)
    assert found is not None
    assert turned is not None
    assert found.count == len(pairs)
    assert math.log(found.mean) == pytest.approx(sum(math.log(b / a) for a, b in pairs.values()) / len(pairs))
    assert found.mean * turned.mean == pytest.approx(1)
    if found.low is not None and turned.high is not None:
        assert found.low * turned.high == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({0: 1.0}, {1: 1.0}),
        ({0: 1.0, 1: None}, {0: 1.0}),
        ({0: 1.0}, {0: 1.0, 1: None}),
        ({0: 0.0}, {0: 1.0}),
        ({}, {}),
    ],
)
def test_there_is_no_ratio_of_other_seeds_nor_where_somebody_did_not_arrive(one: dict, other: dict) -> None:
    assert paired_ratio(one, other) is None
